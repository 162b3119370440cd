//! One connection to the database: how it is made, and what is asked of the server first.
//!
//! TLS is always used and the certificate always verified, unless the server is on this machine.
//! The connection's task ends with the value.

use std::path::Path;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::hosts;
use super::trouble::Trouble;
use crate::config::is_on_this_machine;
use crate::tls;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECTING: &str = "connecting to PostgreSQL";
/// The oldest server whose SQL is used here.
const OLDEST_VERSION: i32 = 120_000;

/// Plans are kept for a long time and must not be made for tables that are still small.
/// A server that is set to acknowledge before it has written would lose what was acknowledged.
const SETTINGS: &str = "SET enable_seqscan = off; \
     SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// An open connection.
pub(super) struct Session {
    pub(super) client: Client,
    connection: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Session {
    /// Connects, and checks that the server can be used. `timeout` bounds each later statement.
    pub(super) async fn open(
        target: &Config,
        ca_file: Option<&Path>,
        timeout: Duration,
    ) -> Result<Self, Trouble> {
        let mut target = target.clone();
        target.connect_timeout(CONNECT_TIMEOUT.min(timeout)).application_name("shopmirror");
        let local = is_on_this_machine(&target) && ca_file.is_none();
        let failed = |error| Trouble::of(CONNECTING, &error);
        let unknown = |problem| Trouble::Server(format!("{CONNECTING}: {problem}"));
        target = hosts::known(target).await.map_err(unknown)?;
        let session = if local {
            let (client, connection) =
                target.ssl_mode(SslMode::Disable).connect(NoTls).await.map_err(failed)?;
            Self { client, connection: attend(connection) }
        } else {
            let tls =
                tls::client_config(ca_file).await.map_err(|e| Trouble::Server(e.to_string()))?;
            let (client, connection) = target
                .ssl_mode(SslMode::Require)
                .connect(MakeRustlsConnect::new(tls))
                .await
                .map_err(failed)?;
            Self { client, connection: attend(connection) }
        };
        session.check(timeout).await?;
        Ok(session)
    }

    async fn check(&self, timeout: Duration) -> Result<(), Trouble> {
        let failed = |error| Trouble::of(CONNECTING, &error);
        let row = self
            .client
            .query_one(
                "SELECT current_setting('server_version_num')::int, \
                 current_setting('server_encoding'), pg_is_in_recovery()",
                &[],
            )
            .await
            .map_err(failed)?;
        let (version, encoding, standby): (i32, String, bool) =
            (row.get(0), row.get(1), row.get(2));
        let problem = if version < OLDEST_VERSION {
            Some("the server is older than PostgreSQL 12: upgrade it".to_owned())
        } else if encoding != "UTF8" {
            Some(format!(
                "the database has the encoding {encoding}, which cannot hold every record: create \
                 one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
            ))
        } else if standby {
            Some(
                "the server is a standby, which stores nothing: name the primary in the url".into(),
            )
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(Trouble::Server(problem));
        }
        let limit = timeout.as_millis();
        let settings = format!("SET statement_timeout = {limit}; {SETTINGS}");
        self.client.batch_execute(&settings).await.map_err(failed)
    }

    /// Whether the server has ended the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

/// Runs the connection until it or the client ends. Its error is reported by the request that
/// waits for an answer.
fn attend<S, T>(connection: tokio_postgres::Connection<S, T>) -> JoinHandle<()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let _ = connection.await;
    })
}
