//! What the database's errors mean, and what the operator does about each.
//!
//! A text here holds no part of the connection string and no part of a record.

use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::schema::{Schema, quoted};
use crate::net::problem::ConnectionProblem;
use crate::sink::{Reason, Verdict};

/// What was being done with the tables.
#[derive(Clone, Copy, PartialEq, Eq, strum::Display)]
pub(super) enum Doing {
    #[strum(to_string = "making the schema")]
    MakingSchema,
    #[strum(to_string = "making the tables")]
    MakingTables,
    #[strum(to_string = "adding columns")]
    AddingColumns,
    #[strum(to_string = "storing changes")]
    Storing,
}

impl Doing {
    /// What gives the role the right to do this.
    fn right(self, schema: &Schema) -> String {
        let name = quoted(&schema.name);
        let role = quoted(&schema.role);
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
        move |error| self.verdict(doing, &error)
    }

    fn verdict(&self, doing: Doing, error: &Error) -> Verdict {
        let Some(state) = error.code() else {
            return Verdict::fault(format!("{doing}: {}", no_response(error)));
        };
        let code = state.code();
        if doing == Doing::Storing && is_about_a_value(code) {
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
        Verdict::fault_with(refusal(&doing.to_string(), error, state, &remedy))
    }
}

/// Whether a code of the server blames a value of a change.
///
/// Class 22 is about values, class 54 about the size of one. Class 23 is about constraints, and
/// P0001 comes from a trigger: the tables of this program have neither for the values of a record.
fn is_about_a_value(code: &str) -> bool {
    ["22", "23", "54", "P0001"]
        .iter()
        .any(|class| code.starts_with(class))
}

/// Why a connection was not opened.
#[allow(clippy::needless_pass_by_value, reason = "`map_err` passes it so")]
pub(super) fn connecting(error: Error) -> Verdict {
    let doing = "connecting to PostgreSQL";
    match error.code() {
        Some(state) => Verdict::fault_with(refusal(doing, &error, state, remedy(state))),
        None => Verdict::fault(format!("{doing}: {}", no_response(&error))),
    }
}

/// Why the server refused something; its own message, which may repeat a record, is a quotation.
fn refusal(doing: &str, error: &Error, state: &SqlState, remedy: &str) -> Reason {
    Reason {
        text: format!("{doing}: refused (SQLSTATE {}){remedy}", state.code()),
        quotation: error.as_db_error().map(|error| error.message().to_owned()),
    }
}

/// What to do about an error whose message does not say it.
fn remedy(state: &SqlState) -> &'static str {
    match *state {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "; correct user and password in the url, or pg_hba.conf on the server"
        }
        SqlState::INVALID_CATALOG_NAME => "; create the database, or correct its name in the url",
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "; a standby stores nothing: name the primary in the url; any other server was set to \
             read-only, see default_transaction_read_only"
        }
        SqlState::QUERY_CANCELED | SqlState::LOCK_NOT_AVAILABLE => {
            "; if another session holds a lock on these tables, end it, or raise `timeout`"
        }
        _ => "; look into the server's log",
    }
}

/// Why a server takes no changes.
pub(super) fn read_only(is_standby: bool, role: &str) -> Verdict {
    let reason = if is_standby {
        "the server is a standby, which stores nothing: name the primary in the url".to_owned()
    } else {
        let role = quoted(role);
        format!(
            "the database is set to read-only: as an administrator run ALTER ROLE {role} SET \
             default_transaction_read_only = off, or correct that setting of the database or in \
             postgresql.conf"
        )
    };
    Verdict::fault(format!("connecting to PostgreSQL: {reason}"))
}

/// Whether the library found no server that takes changes: its own word for a read-only one.
pub(super) fn is_read_only(error: &Error) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::PermissionDenied
            && io.raw_os_error().is_none()
        {
            return true;
        }
        next = cause.source();
    }
    false
}

/// An error without a response of the server, with what to do about it.
fn no_response(error: &Error) -> String {
    if let Some(problem) = ConnectionProblem::find(error) {
        return problem.to_string();
    }
    if error.is_closed() {
        return "the connection was closed; wait until the server runs again".to_owned();
    }
    let mut innermost: &(dyn std::error::Error + 'static) = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    format!("{innermost}; check user, password, host and port in the url")
}
