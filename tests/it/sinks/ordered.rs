//! `in_order = "sink"` with sinks that take batches: nothing passes a change that was refused.

use sandbox::Route;
use serde_json::{Value, json};

#[cfg(feature = "email")]
use super::email::MailServer;
#[cfg(feature = "postgres")]
use crate::support::servers::postgres::Postgres;
use crate::support::{Place, Workspace, wait_until};

/// A log that ends with six leads, of which the third is called Poison; no daemon runs.
async fn log_with_poison(workspace: &Workspace, place: &Place) {
    let daemon = place.started().await;
    workspace.all_polled().await;
    for name in ["First", "Second", "Poison", "Fourth", "Fifth", "Sixth"] {
        workspace.add(Route::Leads, json!({ "name": name }));
        workspace.polled(Route::Leads).await;
    }
    let sixth = || place.number("SELECT count(*) FROM leads WHERE name = 'Sixth'") == 1;
    wait_until("all are stored", sixth).await;
    daemon.stop().await;
}

async fn until_refused(place: &Place) {
    let retrying = || place.number("SELECT sum(retrying) FROM sinks WHERE state = 'active'") == 1;
    wait_until("the poison is refused", retrying).await;
}

/// How much the sink that is configured has got.
fn delivered(place: &Place) -> i64 {
    place.number("SELECT sum(delivered) FROM sinks WHERE state = 'active'")
}

#[cfg(feature = "email")]
#[tokio::test]
async fn a_digest_in_order_holds_nothing_behind_a_change_that_was_refused() {
    let Some(server) = MailServer::start() else { return };
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure("");
    log_with_poison(&workspace, &place).await;
    // The window of the digest is over for all of them.
    let store = place.writer();
    store.execute("UPDATE changes SET observed_at = '2026-01-01T00:00:00.000000Z'", []).unwrap();
    place.configure(&format!(
        "[sinks.desk]\ntype = \"email\"\nserver = \"localhost:{}\"\ntls = \"none\"\n\
         from = \"shop@example.com\"\nto = [\"desk@example.com\"]\ndigest = \"10s\"\n\
         subject = \"{{{{ count }}}} leads\"\n\
         text = \"{{% for change in changes %}}{{{{ change.record.name }}}} {{% if change.record.name == 'Poison' %}}{{{{ change.record.absent }}}}{{% endif %}}{{% endfor %}}\"\n\
         routes = [\"leads\"]\nchanges = [\"created\"]\nstart = \"beginning\"\n\
         in_order = \"sink\"\nretry = [\"1h\"]\n",
        server.port()
    ));
    let _daemon = place.started().await;
    until_refused(&place).await;
    let texts: Vec<Value> = server.mails().iter().map(|mail| mail["text"].clone()).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert_eq!(texts[0].as_str().unwrap().trim(), "First Second");
    assert_eq!(delivered(&place), 2);
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn postgres_in_order_stores_nothing_behind_a_change_that_was_refused() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("url", &role.url);
    let sink = format!(
        "[sinks.warehouse]\ntype = \"postgres\"\nurl_file = \"url\"\nschema = \"{}\"\nworkspace = \"north\"\n\
         in_order = \"sink\"\nretry = [\"1h\"]\n",
        role.name
    );
    place.configure(&sink);
    let daemon = place.started().await;
    workspace.all_polled().await;
    wait_until("it has the baseline", || {
        delivered(&place) == place.number("SELECT max(seq) FROM changes")
    })
    .await;
    daemon.stop().await;
    let refuse = "CREATE FUNCTION {s}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF NEW.body->>'name' = 'Poison' THEN RAISE EXCEPTION 'no' USING ERRCODE = '22023'; END IF; \
         RETURN NEW; END $$; CREATE TRIGGER refuse BEFORE INSERT ON {s}.changes \
         FOR EACH ROW EXECUTE FUNCTION {s}.refuse()";
    role.run(&refuse.replace("{s}", &role.name)).await;
    place.configure("");
    log_with_poison(&workspace, &place).await;
    place.configure(&sink);
    let _daemon = place.started().await;
    until_refused(&place).await;
    let rows = role
        .rows("SELECT body->>'name' FROM {s}.changes WHERE kind = 'created' AND route = 'leads' ORDER BY seq")
        .await;
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_deref().unwrap()).collect();
    assert_eq!(names, ["First", "Second"]);
}
