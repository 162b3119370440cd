//! What the database's errors mean, and what the operator does about each.
//!
//! A text here holds no part of the connection string and no part of a record.

use std::error::Error as _;
use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::session::{Schema, quoted};
use crate::sink::Verdict;

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
    pub(super) fn failed(&self, doing: Doing) -> impl Fn(Error) -> Verdict {
        move |error| {
            let words = doing.words();
            let Some(state) = error.code() else {
                return Verdict::fault(format!("{words}: {}", unanswered(&error)));
            };
            let code = state.code();
            // Class 22 is about values, class 54 about the size of one. Class 23 is about
            // constraints, and P0001 comes from a trigger: the tables of this program have neither
            // for the values of a record.
            let is_of_a_change = ["22", "23", "54", "P0001"]
                .iter()
                .any(|it| code.starts_with(it));
            if is_of_a_change && matches!(doing, Doing::Storing) {
                return Verdict::refused(format!(
                    "PostgreSQL cannot hold this change (SQLSTATE {code})"
                ));
            }
            let remedy = if *state == SqlState::INSUFFICIENT_PRIVILEGE {
                format!(
                    "; as an administrator of the database run {}",
                    doing.right(self)
                )
            } else if code.starts_with("42") {
                "; if another program made this table, name another `schema`; if not, undo the \
                 change, or rename or drop the table: it is made again with its rows"
                    .to_owned()
            } else {
                remedy(state).to_owned()
            };
            Verdict::fault(format!("{words}: {}{remedy}", said(&error, state)))
        }
    }
}

/// Why a connection was not made.
#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` passes")]
pub(super) fn connecting(error: Error) -> Verdict {
    let why = match error.code() {
        Some(state) => format!("{}{}", said(&error, state), remedy(state)),
        None => unanswered(&error),
    };
    Verdict::fault(format!("connecting to PostgreSQL: {why}"))
}

/// The server's message.
fn said(error: &Error, state: &SqlState) -> String {
    let message = error.as_db_error().map_or("", |db| db.message());
    format!("{message} (SQLSTATE {})", state.code())
}

/// What to do about an answer that does not say it itself.
fn remedy(state: &SqlState) -> &'static str {
    match *state {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "; correct user and password in the url, or pg_hba.conf on the server"
        }
        SqlState::INVALID_CATALOG_NAME => "; create the database, or correct its name in the url",
        SqlState::READ_ONLY_SQL_TRANSACTION => STANDBY,
        SqlState::QUERY_CANCELED | SqlState::LOCK_NOT_AVAILABLE => {
            "; if another session holds a lock on these tables, end it, or raise `timeout`"
        }
        _ => "; look into the server's log",
    }
}

const STANDBY: &str =
    "; the server is a standby, which stores nothing: name the primary in the url";

/// An error that came before or without an answer, with what to do about it.
fn unanswered(error: &Error) -> String {
    let causes = || std::iter::successors(error.source(), |&cause| cause.source());
    if let Some(problem) = causes().find_map(crate::net::tls::problem_of) {
        return problem;
    }
    if error.is_closed() {
        return "the connection was closed; wait until the server runs again".to_owned();
    }
    // The library's own word for a server that is read-only.
    let is_standby = causes()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|io| io.kind() == io::ErrorKind::PermissionDenied && io.raw_os_error().is_none());
    let advice = if is_standby {
        STANDBY
    } else {
        "; check user, password, host and port in the url"
    };
    format!("{}{advice}", causes().last().unwrap_or(error))
}
