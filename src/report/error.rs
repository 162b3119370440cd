//! Why a report has no answer.

use crate::store::{ListError, QueryError, StoreError};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The report cannot be asked this.
    #[error("{0}")]
    Refused(String),
    /// It needs what the workspace does not send.
    #[error("{0}")]
    NotSent(String),
    /// The mirror cannot answer it.
    #[error("{0}")]
    Unanswered(String),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ListError> for ReportError {
    fn from(error: ListError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl ReportError {
    /// The query of the report `name` failed.
    pub(super) fn of_query(name: &str, error: QueryError) -> Self {
        match error {
            QueryError::Store(error) => Self::Store(error),
            error => Self::Unanswered(format!("the report {name} cannot be answered: {error}")),
        }
    }
}
