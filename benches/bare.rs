//! The least a program can do with the same libraries: fetch, parse, insert one flat row a record.
//!
//! It is what `benches/run` holds the daemon against. It keeps no log, compares nothing, proves
//! nothing and imports nothing of ours; whatever the daemon costs above it is what the promises cost.
//!
//!     bare BASE_URL KEY DATABASE cold                   each of the six routes once
//!     bare BASE_URL KEY DATABASE steady POLLS PAUSE_MS  one route, so many times, paused between

use std::error::Error;
use std::time::Duration;

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, params_from_iter};
use serde_json::{Map, Value};

const ROUTES: [&str; 6] =
    ["jobs", "customers", "leads", "payments", "job-status-changes", "outsourced-jobs"];

type Record = Map<String, Value>;
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    // An error says that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    match given[..] {
        [base, key, database, "cold"] => run(Bare::new(base, key, database)?, &ROUTES, 1, 0),
        [base, key, database, "steady", polls, pause] => {
            let bare = Bare::new(base, key, database)?;
            run(bare, &["jobs"], polls.parse()?, pause.parse()?)
        }
        // `cargo bench` starts every bench program without what this one needs.
        _ => {
            println!("bare is started by benches/run");
            Ok(())
        }
    }
}

fn run(mut bare: Bare, routes: &[&str], polls: u32, pause_ms: u64) -> Outcome<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        for _ in 0..polls {
            for route in routes {
                let records = bare.fetch(route).await?;
                bare.insert(route, &records)?;
            }
            if pause_ms > 0 {
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
        }
        Ok(())
    })
}

struct Bare {
    client: reqwest::Client,
    base: String,
    key: String,
    database: Connection,
}

impl Bare {
    fn new(base: &str, key: &str, database: &str) -> Outcome<Self> {
        let client =
            reqwest::Client::builder().no_proxy().tls_certs_only(std::iter::empty()).build()?;
        let database = Connection::open(database)?;
        database.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
        Ok(Self { client, base: base.to_owned(), key: key.to_owned(), database })
    }

    async fn fetch(&self, route: &str) -> Outcome<Vec<Record>> {
        let url = format!("{}/automation/triggers/{route}?limit=100", self.base);
        let answer = self.client.get(url).bearer_auth(&self.key).send().await?;
        let body = answer.error_for_status()?.bytes().await?;
        Ok(serde_json::from_slice(&body)?)
    }

    fn insert(&mut self, route: &str, records: &[Record]) -> Outcome<()> {
        let Some(first) = records.first() else { return Ok(()) };
        let columns: Vec<&String> = first.keys().filter(|name| *name != "id").collect();
        let names: String = columns.iter().map(|name| format!(", \"{name}\"")).collect();
        let marks = ", ?".repeat(columns.len());
        let tx = self.database.transaction()?;
        tx.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS \"{route}\" (id PRIMARY KEY{names})"
        ))?;
        let mut insert = tx.prepare_cached(&format!(
            "INSERT OR IGNORE INTO \"{route}\" (id{names}) VALUES (?{marks})"
        ))?;
        for record in records {
            let id = std::iter::once(record.get("id"));
            let cells = id.chain(columns.iter().map(|name| record.get(*name))).map(cell);
            insert.execute(params_from_iter(cells))?;
        }
        drop(insert);
        tx.commit()?;
        Ok(())
    }
}

fn cell(value: Option<&Value>) -> Cell {
    match value {
        None | Some(Value::Null) => Cell::Null,
        Some(Value::Bool(yes)) => Cell::Integer((*yes).into()),
        Some(Value::String(text)) => Cell::Text(text.clone()),
        Some(Value::Number(number)) => match number.as_i64() {
            Some(whole) => Cell::Integer(whole),
            None => Cell::Real(number.as_f64().unwrap_or(f64::NAN)),
        },
        Some(nested) => Cell::Text(nested.to_string()),
    }
}
