//! The least that delivery costs in Rust: posts each stored change, one by one, over one connection.
//!
//!     bare-poster DATABASE HOST

use anyhow::{Result, bail};
use bare::Connection;
use rusqlite::OpenFlags;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, host] = arguments.as_slice() else {
        bail!("bare-poster DATABASE HOST");
    };
    let store = rusqlite::Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut log = store.prepare("SELECT kind, observed_at, body FROM changes ORDER BY seq")?;
    let mut rows = log.query(())?;
    let mut receiver = Connection::open(host).await?;
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        let observed_at: String = row.get(1)?;
        let record: String = row.get(2)?;
        let text = format!(
            r#"{{"data":{{"kind":"{kind}","observed_at":"{observed_at}","record":{record}}}}}"#
        );
        receiver.post("/", text).await?;
    }
    Ok(())
}
