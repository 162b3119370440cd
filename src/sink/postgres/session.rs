//! One connection to the database.
//!
//! TLS is always used and the certificate always verified, unless the server is on this machine.
//! The connection's task ends with the value.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Connection, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{connecting, is_read_only, read_only};
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
        let (client, connection) = match connect(&mut target, settings).await? {
            Ok(connected) => connected,
            Err(error) if is_read_only(&error) => {
                return Err(why_read_only(&mut target, settings).await?);
            }
            Err(error) => return Err(connecting(error)),
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

/// Connects; the outer error is one of the settings or of the database, the inner one the server's.
async fn connect(
    target: &mut Config,
    settings: &PostgresSettings,
) -> Result<Result<(Client, JoinHandle<()>), Error>, Verdict> {
    let ca_file = settings.ca_file.as_deref();
    if is_on_this_machine(target) && ca_file.is_none() {
        return match target.ssl_mode(SslMode::Disable).connect(NoTls).await {
            Ok((client, connection)) => Ok(Ok((client, in_background(connection)?))),
            Err(error) => Ok(Err(error)),
        };
    }
    let tls = MakeRustlsConnect::new(tls::client_config(ca_file).map_err(SinkError::from)?);
    match target.ssl_mode(SslMode::Require).connect(tls).await {
        Ok((client, connection)) => Ok(Ok((client, in_background(connection)?))),
        Err(error) => Ok(Err(error)),
    }
}

/// Asks the first server of the url why it takes no changes.
async fn why_read_only(
    target: &mut Config,
    settings: &PostgresSettings,
) -> Result<Verdict, Verdict> {
    target.target_session_attrs(TargetSessionAttrs::Any);
    let (client, connection) = connect(target, settings).await?.map_err(connecting)?;
    let query = "SELECT pg_is_in_recovery(), current_user::text";
    let row = client.query_one(query, &[]).await.map_err(connecting);
    connection.abort();
    let row = row?;
    Ok(read_only(row.get(0), row.get(1)))
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
