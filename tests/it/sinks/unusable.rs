//! Sinks that cannot work: `check` and `status` name the sink, the cause and the remedy, nothing is
//! lost, and the other sinks go on.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use sandbox::Route;
use serde_json::{Value, json};

use super::email::{MailServer, certificates};
#[cfg(all(feature = "postgres", feature = "nats", feature = "s3"))]
use crate::support::servers::moto::Moto;
#[cfg(all(feature = "postgres", feature = "nats", feature = "s3"))]
use crate::support::servers::nats::Nats;
#[cfg(all(feature = "postgres", feature = "nats", feature = "s3"))]
use crate::support::servers::postgres::{Postgres, Role};
use crate::support::{Place, Workspace, wait_until};

fn sink<'s>(status: &'s Value, name: &str) -> &'s Value {
    let sinks = status["sinks"].as_array().unwrap();
    sinks.iter().find(|sink| sink["name"] == name).unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_unusable_sink_is_named_with_its_remedy_and_gets_everything_when_it_is_corrected() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let [ca, cert, key] = certificates(place.path("").as_path());
    let options = json!({ "cert": cert, "key": key, "user": "shop", "password": "right" });
    let Some(mail) = MailServer::with(&options) else { return };
    place.write("login", "shop\nCANARY\n");
    place.write("partner-key", "ak_CANARY");
    let (program, link, target) =
        (place.path("program"), place.path("link.ndjson"), place.path("passwd"));
    fs::write(&target, "root:x:0:0\n").unwrap();
    symlink(&target, &link).unwrap();
    fs::write(place.path("no-folder"), "").unwrap();
    let from = "start = \"beginning\"\nroutes = [\"leads\"]\nchanges = [\"created\"]\n";
    place.configure(&format!(
        "{}{}{}\
         [sinks.missing]\ntype = \"command\"\ncommand = [\"{}\"]\n{from}\
         [sinks.desk]\ntype = \"email\"\nserver = \"localhost:{}\"\nca_file = \"{}\"\nlogin_file = \"login\"\n\
         from = \"shop@example.com\"\nto = [\"desk@example.com\"]\nsubject = \"{{{{ record.name }}}}\"\n{from}\
         [sinks.partner]\ntype = \"intake\"\nbase_url = \"{}\"\napi_key_file = \"partner-key\"\ncreate = \"self_checkin\"\n\
         fields = {{ name = \"{{{{ record.name }}}}\", mobile_number = \"1\" }}\n{from}",
        Place::file_sink("good", from),
        Place::file_sink("link", from),
        format_args!("[sinks.folder]\ntype = \"file\"\npath = \"no-folder/audit.ndjson\"\n{from}"),
        program.display(),
        mail.port(),
        ca.display(),
        workspace.base_url(),
    ));
    let wrong = [
        ("link", "symbolic link", "name the file itself"),
        ("folder", "no-folder", ""),
        ("missing", "No such file", ""),
        ("desk", "refused the login (535)", "correct login_file"),
        ("partner", "401", "put a valid key into api_key_file"),
    ];
    let checked = place.run(["check"]).await;
    assert_ne!(checked.code, Some(0), "{checked:?}");
    for (name, cause, remedy) in wrong {
        let line = checked.out.lines().find(|line| line.contains(&format!("sink {name} ")));
        let line = line.unwrap_or_else(|| panic!("{name}: {checked:?}"));
        assert!(
            line.starts_with("WRONG") && line.contains(cause) && line.contains(remedy),
            "{line}"
        );
    }
    assert!(checked.out.lines().any(|line| line.starts_with("ok") && line.contains("sink good")));

    let daemon = place.started().await;
    workspace.polled(Route::Leads).await;
    workspace.add(Route::Leads, json!({ "name": "Ada" }));
    workspace.add(Route::Leads, json!({ "name": "Eva" }));
    wait_until("the good sink has both", || place.lines("good.ndjson").len() == 2).await;
    let status = place
        .status_when("every other sink says what is wrong", |status| {
            wrong.iter().all(|(name, cause, _)| {
                let said = sink(status, name)["last_error"].as_str().unwrap_or_default();
                said.contains(cause)
            })
        })
        .await;
    for (name, _, remedy) in wrong {
        let said = sink(&status, name)["last_error"].as_str().unwrap();
        assert!(said.contains(remedy) && !said.contains("CANARY"), "{name}: {said}");
        assert_eq!(sink(&status, name)["dead"], 0, "{name}: nothing is given up");
    }
    assert!(mail.mails().is_empty() && fs::read_to_string(&target).unwrap() == "root:x:0:0\n");

    fs::remove_file(&link).unwrap();
    fs::remove_file(place.path("no-folder")).unwrap();
    fs::create_dir(place.path("no-folder")).unwrap();
    fs::write(&program, format!("#!/bin/sh\ncat >> {}\n", place.path("taken").display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    place.write("login", "shop\nright\n");
    place.write("partner-key", &workspace.sandbox.rest_key());
    daemon.signal(rustix::process::Signal::HUP);
    let lines =
        |name: &str| fs::read_to_string(place.path(name)).unwrap_or_default().lines().count();
    wait_until("every file has both", || {
        ["link.ndjson", "no-folder/audit.ndjson", "taken"].iter().all(|name| lines(name) == 2)
    })
    .await;
    wait_until("both mails were sent", || mail.mails().len() == 2).await;
    place
        .status_when("every sink is well", |status| {
            wrong.iter().all(|(name, ..)| {
                let sink = sink(status, name);
                sink["state"] == "active" && sink["retrying"] == 0 && sink["dead"] == 0
            })
        })
        .await;
    daemon.stop().await;
}

/// The same for sinks that are servers: a table with other columns, a role that may not create, a
/// stream of others, a bucket that is not there.
#[cfg(all(feature = "postgres", feature = "nats", feature = "s3"))]
#[tokio::test(flavor = "multi_thread")]
async fn each_unusable_server_is_named_with_its_remedy_and_gets_everything_when_it_is_corrected() {
    let (Some(postgres), Some(nats), Some(moto)) =
        (Postgres::shared(), Nats::shared(), Moto::shared())
    else {
        return;
    };
    let (foreign, few) = (postgres.role().await, postgres.role().await);
    let name = &foreign.name;
    foreign
        .run(&format!(
            "CREATE SCHEMA {name} AUTHORIZATION {name}; CREATE TABLE {name}.leads (id integer)"
        ))
        .await;
    few.run(&format!("CREATE SCHEMA {0}", few.name)).await;
    nats.make("OTHERS", 1_000_000).await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("access", "AKIDCANARY\nSECRETCANARY\n");
    let from = "start = \"beginning\"\nroutes = [\"leads\"]\nchanges = [\"created\"]\n";
    let section = |subject: &str| {
        let database = |sink: &str, role: &Role| {
            format!(
                "[sinks.{sink}]\ntype = \"postgres\"\nurl = \"{}\"\nschema = \"{}\"\nworkspace = \"north\"\n{from}",
                role.url, role.name
            )
        };
        format!(
            "{}{}{}\
             [sinks.bus]\ntype = \"nats\"\nurl = \"{}\"\nstream = \"OTHERS\"\nworkspace = \"north\"\nsubject = \"{subject}\"\n{from}\
             [sinks.archive]\ntype = \"s3\"\nendpoint = \"{}\"\nbucket = \"not-there-yet\"\nevery = \"0s\"\n\
             workspace = \"north\"\naccess_key_file = \"access\"\n{from}",
            Place::file_sink("good", from),
            database("foreign", &foreign),
            database("few", &few),
            nats.url("all", "right"),
            moto.url(),
        )
    };
    place.configure(&section("ours.{workspace}.{route}.{kind}"));
    let wrong = [
        ("foreign", "has no column workspace", "another `schema`"),
        ("few", "may not", "run GRANT USAGE, CREATE ON SCHEMA"),
        ("bus", "the stream OTHERS is of others", "name another `stream`"),
        ("archive", "the bucket not-there-yet is not there", "create it"),
    ];
    let checked = place.run(["check"]).await;
    assert_ne!(checked.code, Some(0), "{checked:?}");
    for (name, cause, remedy) in wrong {
        let line = checked.out.lines().find(|line| line.contains(&format!("sink {name} ")));
        let line = line.unwrap_or_else(|| panic!("{name}: {checked:?}"));
        assert!(
            line.starts_with("WRONG") && line.contains(cause) && line.contains(remedy),
            "{line}"
        );
    }
    let daemon = place.started().await;
    workspace.polled(Route::Leads).await;
    workspace.add(Route::Leads, json!({ "name": "Ada" }));
    workspace.add(Route::Leads, json!({ "name": "Eva" }));
    wait_until("the good sink has both", || place.lines("good.ndjson").len() == 2).await;
    place
        .status_when("every other sink says what is wrong", |status| {
            wrong.iter().all(|(name, cause, remedy)| {
                let sink = sink(status, name);
                let said = sink["last_error"].as_str().unwrap_or_default();
                said.contains(cause)
                    && said.contains(remedy)
                    && !said.contains("CANARY")
                    && sink["dead"] == 0
            })
        })
        .await;
    foreign.run(&format!("DROP TABLE {name}.leads")).await;
    few.run(&format!("GRANT USAGE, CREATE ON SCHEMA {0} TO {0}", few.name)).await;
    moto.bucket("not-there-yet").await;
    place.configure(&section("OTHERS.{workspace}.{route}.{kind}"));
    daemon.signal(rustix::process::Signal::HUP);
    place
        .status_when("every sink is well", |status| {
            wrong.iter().all(|(name, ..)| {
                let sink = sink(status, name);
                sink["state"] == "active" && sink["behind"] == 0 && sink["delivered"] == 2
            })
        })
        .await;
    for role in [&foreign, &few] {
        assert_eq!(role.number("SELECT count(*) FROM {s}.leads").await, 2);
    }
    assert_eq!(nats.stream("OTHERS").await.0, 2);
    assert_eq!(moto.lines("not-there-yet").await.len(), 2);
    daemon.stop().await;
}
