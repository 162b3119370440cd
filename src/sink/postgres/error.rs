//! What the database's errors mean, and what the operator does about each.
//!
//! A text here holds no part of the connection string and no part of a record.

use std::error::Error as _;
use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::session::{Schema, quoted};

/// Why changes could not be stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostgresError {
    /// The server, the connection or the database is at fault.
    #[error("{0}")]
    Server(String),
    /// The server refused the text of at least one change.
    #[error("PostgreSQL cannot hold this change (SQLSTATE {0})")]
    Data(String),
    /// The database holds less than it acknowledged: its position is this one.
    #[error("{0}")]
    Lost(i64),
}

/// What was being done with the tables.
#[derive(Clone, Copy)]
pub(super) enum Doing {
    MakingSchema,
    MakingTables,
    AddingColumns,
    Storing,
}

impl Doing {
    fn words(self) -> &'static str {
        match self {
            Self::MakingSchema => "making the schema",
            Self::MakingTables => "making the tables",
            Self::AddingColumns => "adding columns",
            Self::Storing => "storing changes",
        }
    }

    /// What gives the role the right to do this.
    fn right(self, schema: &Schema) -> String {
        let (name, role) = (quoted(&schema.name), quoted(&schema.role));
        match self {
            Self::MakingSchema => format!("CREATE SCHEMA {name} AUTHORIZATION {role}"),
            Self::MakingTables => format!("GRANT USAGE, CREATE ON SCHEMA {name} TO {role}"),
            Self::AddingColumns => {
                format!("ALTER TABLE … OWNER TO {role} for each table of schema {name}")
            }
            Self::Storing => format!(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO {role}"
            ),
        }
    }
}

impl Schema {
    /// What an error of the server means.
    pub(super) fn failed(&self, doing: Doing) -> impl Fn(Error) -> PostgresError {
        move |error| {
            let Some(state) = error.code() else {
                return PostgresError::Server(format!("{}: {}", doing.words(), unanswered(&error)));
            };
            let code = state.code();
            // Class 22 is about values, class 54 about the size of one. Class 23 is about constraints,
            // and P0001 comes from a trigger: the tables of this program have neither for the values
            // of a record.
            let is_of_a_change = ["22", "23", "54", "P0001"].iter().any(|it| code.starts_with(it));
            if is_of_a_change && matches!(doing, Doing::Storing) {
                return PostgresError::Data(code.to_owned());
            }
            let remedy = match *state {
                SqlState::INSUFFICIENT_PRIVILEGE => {
                    format!("; as an administrator of the database run {}", doing.right(self))
                }
                SqlState::TOO_MANY_COLUMNS => {
                    "; a dropped column counts too: rename or drop the table, and it is made again \
                     with its rows"
                        .to_owned()
                }
                SqlState::DUPLICATE_COLUMN => {
                    "; a record has a field of this name: rename your own column, or drop the table, \
                     and it is made again with its rows"
                        .to_owned()
                }
                _ if code.starts_with("42") => {
                    "; if another program made this table, name another `schema`; if not, undo the \
                     change, or rename or drop the table: it is made again with its rows"
                        .to_owned()
                }
                _ => remedy(state).to_owned(),
            };
            PostgresError::Server(format!("{}: {}{remedy}", doing.words(), said(&error, state)))
        }
    }
}

impl PostgresError {
    /// Why a connection was not made.
    #[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` passes")]
    pub(super) fn connecting(error: Error) -> Self {
        let why = match error.code() {
            Some(state) => format!("{}{}", said(&error, state), remedy(state)),
            None => unanswered(&error),
        };
        Self::Server(format!("connecting to PostgreSQL: {why}"))
    }
}

/// The server's message.
fn said(error: &Error, state: &SqlState) -> String {
    let message = error.as_db_error().map_or("", |db| db.message());
    format!("{message} (SQLSTATE {})", state.code())
}

/// What to do about an answer of the server.
fn remedy(state: &SqlState) -> &'static str {
    match *state {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "; correct user and password in the url, or pg_hba.conf on the server"
        }
        SqlState::INVALID_CATALOG_NAME => "; create the database, or correct its name in the url",
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "; as an administrator run GRANT CONNECT ON DATABASE … TO …, with the names in the url"
        }
        SqlState::TOO_MANY_CONNECTIONS => "; raise max_connections on the server",
        SqlState::DISK_FULL => "; free some space on the server",
        SqlState::READ_ONLY_SQL_TRANSACTION => STANDBY,
        SqlState::QUERY_CANCELED | SqlState::LOCK_NOT_AVAILABLE => {
            "; if another session holds a lock on these tables, end it, or raise `timeout`"
        }
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW => {
            "; wait until the server runs again"
        }
        _ => "; look into the server's log",
    }
}

const STANDBY: &str =
    "; the server is a standby, which stores nothing: name the primary in the url";

/// An error that came before or without an answer, with what to do about it.
fn unanswered(error: &Error) -> String {
    let causes = || std::iter::successors(error.source(), |&cause| cause.source());
    if let Some(problem) = causes().find_map(crate::tls::problem_of) {
        return problem;
    }
    if error.is_closed() {
        return "the connection was closed; wait until the server runs again".to_owned();
    }
    let advice = match causes().find_map(|cause| cause.downcast_ref::<io::Error>()) {
        Some(io) => match io.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                "; start the server, or correct host and port in the url"
            }
            // The library's own word for a server that is read-only.
            io::ErrorKind::PermissionDenied if io.raw_os_error().is_none() => STANDBY,
            _ => "; check the network, and host and port in the url",
        },
        None => "; check user, password, host and port in the url",
    };
    format!("{}{advice}", causes().last().unwrap_or(error))
}
