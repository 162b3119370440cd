//! A schema of PostgreSQL.

use std::sync::Mutex;

use super::*;
use crate::support::servers::postgres::{Postgres, Role};

struct Database {
    role: Role,
    relay: Relay,
    own: Option<Mutex<Postgres>>,
}

pub(super) async fn start(own: bool) -> Option<Box<dyn Destination>> {
    let own = if own { Some(Postgres::start()?) } else { None };
    let server = match &own {
        Some(own) => own,
        None => Postgres::shared()?,
    };
    let role = server.role().await;
    let relay = Relay::to(server.port()).await;
    Some(Box::new(Database {
        role,
        relay,
        own: own.map(Mutex::new),
    }))
}

impl Destination for Database {
    fn relay(&self) -> Option<&Relay> {
        Some(&self.relay)
    }

    fn name(&self) -> &'static str {
        "postgres"
    }

    fn keys(&self, timeout: &str) -> String {
        let (name, port) = (&self.role.name, self.relay.port());
        format!(
            "type = \"postgres\"\nurl = \"postgresql://{name}@127.0.0.1:{port}/postgres\"\n\
             schema = \"{name}\"\nworkspace = \"north\"\ntimeout = \"{timeout}\""
        )
    }

    fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
        // In the order of their rows on the disk, which is that of their arrival.
        let rows = self.role.psql(
            "SELECT json_build_object('event_id', event_id, 'seq', seq, 'route', route, \
             'record_id', record_id, 'kind', kind, 'version', version, 'observed_at', \
             to_char(observed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), \
             'business', business, 'record', coalesce(exact, body::text), \
             'changed', json_build_object()) FROM {s}.changes ORDER BY ctid",
        );
        let read = |row: &String| {
            let mut data: Value = serde_json::from_str(row).unwrap();
            data["record"] = serde_json::from_str(data["record"].as_str().unwrap()).unwrap();
            data
        };
        let data = rows.iter().map(read).collect();
        Box::pin(async move { Some(data) })
    }

    fn shows_repeats(&self) -> bool {
        false
    }

    fn come_back(&self) {
        if let Some(server) = &self.own {
            let mut server = server.lock().unwrap();
            let port = server.port();
            server.end();
            server.begin(Some(port));
            // It listens a little before it answers.
            while self.role.psql("SELECT 1").is_empty() {
                std::thread::yield_now();
            }
        }
        self.relay.set(Line::Open);
    }

    fn trespass(&self) -> BoxFuture<'_, Option<String>> {
        let tables = self
            .role
            .psql("SELECT count(*) FROM pg_tables WHERE schemaname = '{s}'")
            .join("");
        let newest = "SELECT count(*) FROM (SELECT max(seq) AS seq FROM {s}.changes \
             GROUP BY route, record_id) AS newest \
             WHERE seq NOT IN (SELECT _seq FROM {s}.payments UNION ALL SELECT _seq FROM {s}.customers \
             UNION ALL SELECT _seq FROM {s}.leads UNION ALL SELECT _seq FROM {s}.jobs)";
        let behind = self.role.psql(newest).join("");
        let said = match (tables.as_str(), behind.as_str()) {
            ("10", "0") => None,
            _ => Some(format!(
                "{tables} tables, and {behind} records without their newest version"
            )),
        };
        Box::pin(async move { said })
    }
}
