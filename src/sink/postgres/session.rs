//! One connection to the database, and how its tables are named.
//!
//! TLS is always used and the certificate always verified, unless the server is on this machine. The
//! connection's task ends with the value.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Connection, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::PostgresError;
use crate::config::is_on_this_machine;
use crate::tls;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A statement that was given up here must not hold its locks for long. A server that is set to
/// acknowledge before it has written would lose what was acknowledged.
const SETTINGS: &str = "SELECT current_user::text, set_config('statement_timeout', $1, false), \
     set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' \
     THEN 'on' ELSE current_setting('synchronous_commit') END, false)";

/// The schema of the tables, and the role that writes to them.
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) role: String,
}

impl Schema {
    /// A table of the schema, in quotes.
    pub(super) fn table(&self, name: &str) -> String {
        format!("{}.{}", quoted(&self.name), quoted(name))
    }
}

/// An identifier in quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An open connection.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) schema: Schema,
    connection: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Session {
    /// Connects to the first host of the url that takes changes. `timeout` bounds each later statement.
    pub(super) async fn open(
        target: &Config,
        ca_file: Option<&Path>,
        schema: &str,
        timeout: Duration,
    ) -> Result<Self, PostgresError> {
        let mut target = target.clone();
        target
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .application_name("shopmirror")
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        let (client, connection) = if is_on_this_machine(&target) && ca_file.is_none() {
            let connecting = target.ssl_mode(SslMode::Disable).connect(NoTls);
            let (client, connection) = connecting.await.map_err(PostgresError::connecting)?;
            (client, in_background(connection)?)
        } else {
            let tls = tls::client_config(ca_file).map_err(PostgresError::Server)?;
            let connecting = target.ssl_mode(SslMode::Require).connect(MakeRustlsConnect::new(tls));
            let (client, connection) = connecting.await.map_err(PostgresError::connecting)?;
            (client, in_background(connection)?)
        };
        // Made before the first question, so that the connection ends if that one fails.
        let schema = Schema { name: schema.to_owned(), role: String::new() };
        let mut session = Self { client, schema, connection };
        let limit = timeout.as_millis().to_string();
        let row = session.client.query_one(SETTINGS, &[&limit]).await;
        session.schema.role = row.map_err(PostgresError::connecting)?.get(0);
        Ok(session)
    }

    /// Whether the server has ended the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

/// Runs the connection until it or the client ends. Its error is reported by the request that
/// waits for an answer.
fn in_background<S, T>(connection: Connection<S, T>) -> Result<JoinHandle<()>, PostgresError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match connection.parameter("server_encoding") {
        Some("UTF8") => Ok(tokio::spawn(async move { drop(connection.await) })),
        other => Err(PostgresError::Server(format!(
            "the database has the encoding {}, which cannot hold every record: create one with \
             CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
            other.unwrap_or("?")
        ))),
    }
}
