//! One connection to the database.
//!
//! TLS is always used and the certificate always verified, unless the server is on this machine.
//! The connection's task ends with the value.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Connection, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::connecting;
use super::schema::Schema;
use crate::config::{PostgresSettings, is_on_this_machine, postgres_target};
use crate::net::tls;
use crate::sink::lookup::current;
use crate::sink::{SinkError, Verdict};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the role. A statement that was given up here must not hold its locks for long. A server
/// that is set to acknowledge before it has written would lose what was acknowledged.
const SETTINGS: &str = "
    SELECT
        current_user::text,
        set_config('statement_timeout', $1, false),
        set_config(
            'synchronous_commit',
            CASE current_setting('synchronous_commit')
                WHEN 'off' THEN 'on'
                ELSE current_setting('synchronous_commit')
            END,
            false
        )";

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
    /// Connects to the first host of the url that takes changes.
    pub(super) async fn open(settings: &PostgresSettings) -> Result<Self, Verdict> {
        let mut target = current(&settings.url, postgres_target)?;
        target
            .connect_timeout(CONNECT_TIMEOUT)
            .application_name("shopmirror")
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        let ca_file = settings.ca_file.as_deref();
        let (client, connection) = if is_on_this_machine(&target) && ca_file.is_none() {
            let opening = target.ssl_mode(SslMode::Disable).connect(NoTls);
            let (client, connection) = opening.await.map_err(connecting)?;
            (client, in_background(connection)?)
        } else {
            let tls = tls::client_config(ca_file).map_err(SinkError::from)?;
            let opening = target
                .ssl_mode(SslMode::Require)
                .connect(MakeRustlsConnect::new(tls));
            let (client, connection) = opening.await.map_err(connecting)?;
            (client, in_background(connection)?)
        };
        // Built before the first query, so that the connection ends if that fails.
        let schema = Schema {
            name: settings.schema.clone(),
            role: String::new(),
        };
        let mut session = Self {
            client,
            schema,
            connection,
        };
        let limit = settings.timeout.as_millis().to_string();
        let row = session.client.query_one(SETTINGS, &[&limit]).await;
        session.schema.role = row.map_err(connecting)?.get(0);
        Ok(session)
    }
}

/// Runs the connection until it or the client ends. Its error is reported by the request that
/// waits for a response.
fn in_background<S, T>(connection: Connection<S, T>) -> Result<JoinHandle<()>, Verdict>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match connection.parameter("server_encoding") {
        Some("UTF8") => Ok(tokio::spawn(async move { drop(connection.await) })),
        other => Err(Verdict::fault(format!(
            "the database has the encoding {}, which cannot hold every record: create one with \
             CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
            other.unwrap_or("?")
        ))),
    }
}
