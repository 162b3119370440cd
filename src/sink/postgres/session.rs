//! One connection to the database: how it is made, and what is asked of the server first.
//!
//! TLS is always used and the certificate always verified, unless the server is on this machine.
//! What the server may send is bounded. The connection's task ends with the value.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::guard::{Guard, Guarded};
use super::hosts;
use super::trouble::{Trouble, unreachable};
use crate::config::is_on_this_machine;
use crate::sink::lookup::addresses;
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
        if local {
            return Self::open_here(&mut target, timeout).await;
        }
        let unknown = |problem| Trouble::Server(format!("{CONNECTING}: {problem}"));
        target = hosts::known(target).await.map_err(unknown)?;
        let tls = tls::client_config(ca_file).await.map_err(|e| Trouble::Server(e.to_string()))?;
        let (client, connection) = target
            .ssl_mode(SslMode::Require)
            .connect(Guard(MakeRustlsConnect::new(tls)))
            .await
            .map_err(|error| Trouble::of(CONNECTING, &error))?;
        let session = Self { client, connection: attend(connection) };
        session.check(timeout).await?;
        Ok(session)
    }

    /// Connects on this machine, without TLS, to the first place with a server that can be used.
    async fn open_here(target: &mut Config, timeout: Duration) -> Result<Self, Trouble> {
        target.ssl_mode(SslMode::Disable);
        let mut outcome = Err(Trouble::Server(format!("{CONNECTING}: the url names no host")));
        for (host, port) in hosts::places_here(target) {
            outcome = Self::open_place(target, &host, port, timeout).await;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    async fn open_place(
        target: &Config,
        host: &Host,
        port: u16,
        timeout: Duration,
    ) -> Result<Self, Trouble> {
        let connecting = reach(host, port);
        let limit = CONNECT_TIMEOUT.min(timeout);
        let reached = tokio::time::timeout(limit, connecting).await;
        let stream = reached.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let stream = stream
            .map_err(|error| Trouble::Server(format!("{CONNECTING}: {}", unreachable(&error))))?;
        let (client, connection) = target
            .connect_raw(Guarded::new(stream), NoTls)
            .await
            .map_err(|error| Trouble::of(CONNECTING, &error))?;
        let session = Self { client, connection: attend(connection) };
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

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

async fn reach(host: &Host, port: u16) -> io::Result<Box<dyn Stream>> {
    Ok(match host {
        Host::Tcp(name) => {
            let stream = TcpStream::connect(addresses(name, port).await?.as_slice()).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Host::Unix(folder) => {
            Box::new(UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await?)
        }
    })
}

/// Runs the connection until it or the client ends. Its error is reported by the request that
/// waits for an answer.
fn attend<S, T>(connection: tokio_postgres::Connection<S, T>) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let _ = connection.await;
    })
}
