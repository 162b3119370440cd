//! Sinks that cannot work: `check` names the sink, the cause and the remedy.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::email::MailServer;
use crate::support::servers::certificate;
use crate::support::servers::moto::Moto;
use crate::support::servers::nats::Nats;
use crate::support::servers::postgres::Postgres;
use crate::support::{Place, Workspace};

/// The sinks that need a server, of which some may be left out: name, configuration, cause, remedy.
type Unusable = (&'static str, String, &'static str, &'static str);

async fn servers(mail: Option<&MailServer>) -> Vec<Unusable> {
    let mut sinks: Vec<Unusable> = Vec::new();
    if let Some(mail) = mail {
        let desk = format!(
            "type = \"email\"\nserver = \"127.0.0.1:{}\"\nca_file = \"{}\"\nlogin_file = \"login\"\n\
             from = \"shop@example.com\"\nto = [\"desk@example.com\"]\nsubject = \"x\"",
            mail.port(),
            certificate("ca.pem").display()
        );
        sinks.push(("desk", desk, "refused the login (535)", "correct login_file"));
    }
    if let Some(postgres) = Postgres::shared() {
        let foreign = postgres.role().await;
        let made = "CREATE SCHEMA {s} AUTHORIZATION {s}; CREATE TABLE {s}.leads (id integer)";
        foreign.run(&made.replace("{s}", &foreign.name)).await;
        let database = format!(
            "type = \"postgres\"\nurl = \"{}\"\nschema = \"{}\"\nworkspace = \"a\"",
            foreign.url, foreign.name
        );
        sinks.push((
            "database",
            database,
            "column \"workspace\" of relation \"leads\" does not exist",
            "another `schema`",
        ));
    }
    if let Some(nats) = Nats::shared() {
        nats.make("OTHERS", 1_000_000).await;
        let bus = format!(
            "type = \"nats\"\nurl = \"{}\"\nstream = \"OTHERS\"\nworkspace = \"a\"",
            nats.url("all", "right")
        );
        sinks.push(("bus", bus, "the stream OTHERS is of others", "name another `stream`"));
    }
    if let Some(moto) = Moto::shared() {
        let archive = format!(
            "type = \"s3\"\nendpoint = \"{}\"\nbucket = \"gone\"\nworkspace = \"a\"\n\
             access_key_file = \"access\"",
            moto.url()
        );
        sinks.push(("archive", archive, "the bucket gone is not there", "create it"));
    }
    sinks
}

#[tokio::test(flavor = "multi_thread")]
async fn each_unusable_sink_is_named_with_its_remedy() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    for (name, text) in
        [("login", "shop\nCANARY\n"), ("partner-key", "ak_CANARY"), ("access", "ID\nCANARY\n")]
    {
        place.write(name, text);
    }
    fs::write(place.path("passwd"), "root:x:0:0\n").unwrap();
    symlink(place.path("passwd"), place.path("link.ndjson")).unwrap();
    let partner = format!(
        "type = \"intake\"\nbase_url = \"{}\"\napi_key_file = \"partner-key\"\n\
         create = \"self_checkin\"\nfields = {{ name = \"x\", mobile_number = \"1\" }}",
        workspace.base_url()
    );
    let file = |path: &str| format!("type = \"file\"\npath = \"{path}\"");
    let missing = "type = \"command\"\ncommand = [\"/nowhere/print-label\"]".to_owned();
    let [cert, key] = ["server.pem", "server.key"].map(certificate);
    let options = json!({ "cert": cert, "key": key, "user": "shop", "password": "right" });
    let mail = MailServer::with(&options);
    let mut wrong = servers(mail.as_ref()).await;
    wrong.extend([
        ("link", file("link.ndjson"), "symbolic link", "name the file itself"),
        ("folder", file("absent/audit.ndjson"), "absent", "create the folder"),
        ("missing", missing, "No such file", ""),
        ("partner", partner, "401", "put a valid key into api_key_file"),
    ]);
    let mut text = Place::file_sink("good", "");
    for (name, lines, ..) in &wrong {
        text += &format!("[sinks.{name}]\nroutes = [\"leads\"]\n{lines}\n");
    }
    place.configure(&text);

    let checked = place.run(["check"]).await;
    assert_ne!(checked.code, Some(0), "{checked:?}");
    let line = |name: &str| {
        let mut lines = checked.out.lines();
        lines.find(|line| line.contains(&format!("sink {name} "))).unwrap_or_default()
    };
    for (name, _, cause, remedy) in &wrong {
        let said = line(name);
        assert!(said.starts_with("WRONG") && said.contains(cause), "{name}: {checked:?}");
        assert!(said.contains(remedy) && !said.contains("CANARY"), "{name}: {said}");
    }
    assert!(line("good").starts_with("ok"), "{checked:?}");
    assert_eq!(fs::read_to_string(place.path("passwd")).unwrap(), "root:x:0:0\n");
}
