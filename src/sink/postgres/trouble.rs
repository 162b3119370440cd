//! What the database's errors mean, and what the operator does about each.
//!
//! A text here holds no part of the connection string and no part of a record.

use std::error::Error as _;
use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::record::Route;

/// Why changes could not be stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The server, the connection or the database is at fault.
    #[error("{0}")]
    Server(String),
    /// The server refused the text of at least one change.
    #[error("PostgreSQL cannot hold this change (SQLSTATE {0})")]
    Data(String),
    /// The table of a route cannot be written, because others changed it.
    #[error("{said}")]
    Table { route: Route, said: String },
    /// The database holds less than it acknowledged: its position is this one.
    #[error("{0}")]
    Lost(i64),
}

impl Trouble {
    /// The trouble of doing something, for example "connecting to PostgreSQL".
    pub(super) fn of(doing: &str, error: &Error) -> Self {
        let Some(state) = error.code() else {
            return Self::Server(format!("{doing}: {}", without_state(error)));
        };
        let code = state.code();
        // Class 22 is about values, class 54 about the size of one. Class 23 is about constraints, and
        // P0001 comes from a trigger: the tables of this program have neither for the values of a record.
        if ["22", "23", "54", "P0001"].iter().any(|class| code.starts_with(class)) {
            return Self::Data(code.to_owned());
        }
        Self::Server(said(doing, error, state))
    }

    /// The trouble of the statement that writes the table of a route: the server refuses it because of
    /// what others changed, unless something is missing that is rebuilt.
    pub(super) fn of_route(doing: &str, schema: &str, route: Route, error: &Error) -> Self {
        const MADE_AGAIN: [SqlState; 4] = [
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_COLUMN,
            SqlState::INVALID_SCHEMA_NAME,
            SqlState::INSUFFICIENT_PRIVILEGE,
        ];
        match error.code() {
            Some(state) if state.code().starts_with("42") && !MADE_AGAIN.contains(state) => {
                let message = error.as_db_error().map_or("", |db| db.message());
                Self::table(schema, route, &format!("{message} (SQLSTATE {})", state.code()))
            }
            _ => Self::of(&format!("{doing} {route}"), error),
        }
    }

    /// The table of a route is not what it must be.
    pub(super) fn table(schema: &str, route: Route, what: &str) -> Self {
        let said = format!(
            "the table {schema}.{route} cannot be written: {what}; take back what was changed, or \
             rename or drop the table: it is rebuilt with all its rows"
        );
        Self::Table { route, said }
    }

    /// The trouble of making or changing tables, which is never the fault of one change.
    pub(super) fn of_tables(doing: &str, error: &Error) -> Self {
        match error.code() {
            Some(state) => Self::Server(said(doing, error, state)),
            None => Self::of(doing, error),
        }
    }
}

/// The server's message, with what to do about it.
fn said(doing: &str, error: &Error, state: &SqlState) -> String {
    let message = error.as_db_error().map_or("", |db| db.message());
    format!("{doing}: {message} (SQLSTATE {}){}", state.code(), remedy(state))
}

/// What to do about an answer of the server.
fn remedy(state: &SqlState) -> &'static str {
    match *state {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "; correct user and password in the url, or pg_hba.conf on the server"
        }
        SqlState::INVALID_CATALOG_NAME => "; create the database, or correct its name in the url",
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "; the role needs a schema of its own: run CREATE SCHEMA … AUTHORIZATION role, with the \
             schema of this sink, as an administrator of the database"
        }
        SqlState::TOO_MANY_COLUMNS => {
            "; a dropped column counts too: move the table away, so that it is made anew, or use \
             another `schema`"
        }
        SqlState::TOO_MANY_CONNECTIONS => "; raise max_connections on the server",
        SqlState::DISK_FULL => "; free some space on the server",
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "; name the primary server in the url, not a standby"
        }
        SqlState::QUERY_CANCELED | SqlState::LOCK_NOT_AVAILABLE => {
            "; if another session holds a lock on these tables, end it, or raise `timeout`"
        }
        SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN | SqlState::INVALID_SCHEMA_NAME => {
            "; the tables were changed or removed by others: what is missing is rebuilt"
        }
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW => {
            "; wait until the server runs again"
        }
        _ => "",
    }
}

/// An error that came before or without an answer.
fn without_state(error: &Error) -> String {
    let causes = || std::iter::successors(error.source(), |&cause| cause.source());
    let found = causes().find_map(|cause| cause.downcast_ref::<io::Error>());
    if let Some(problem) = causes().find_map(crate::tls::problem_of) {
        return problem;
    }
    match found {
        Some(io) => unreachable(io),
        None if error.is_closed() => {
            "the connection was closed; wait until the server runs again".to_owned()
        }
        None => error.to_string(),
    }
}

/// An error of the connection, with what to do about it.
pub(super) fn unreachable(io: &io::Error) -> String {
    let advice = match io.kind() {
        io::ErrorKind::ConnectionRefused => {
            "; start the server, or correct host and port in the url"
        }
        io::ErrorKind::NotFound => "; correct the host in the url, or start the server",
        io::ErrorKind::TimedOut => "; check the network, and host and port in the url",
        _ => "",
    };
    format!("{io}{advice}")
}
