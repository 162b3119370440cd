//! Destinations that keep their own account of what they have: whether something of it was lost,
//! and where it was kept before.

#[cfg(feature = "postgres")]
use super::BatchedSink;
use super::Sink;
use crate::config::NameTemplate;

impl Sink {
    /// The last row of the log that the destination has, if it keeps an account of that.
    #[must_use]
    pub fn stored(&self) -> Option<i64> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Batched(BatchedSink::Postgres(sink)) => sink.stored(),
            _ => None,
        }
    }

    /// The newest changes that the destination has under the name that this sink stores under, by
    /// number and event id, if it keeps an account of that. They belong to another store if its log
    /// does not have them.
    ///
    /// # Errors
    /// What is wrong, and how to fix it.
    pub async fn newest_stored(&self) -> Result<Vec<(i64, String)>, String> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Batched(BatchedSink::Postgres(sink)) => {
                sink.newest_stored().await.map_err(|reason| sink.secrets().reason(&reason))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// From now on the destination must have what it was given up to this row of the log. If it has
    /// less, changes are [`Verdict::NotTried`](super::Verdict::NotTried) and
    /// [`take_lost`](Self::take_lost) says so.
    #[cfg_attr(not(feature = "postgres"), expect(unused_variables))]
    pub fn expect_stored(&mut self, seq: i64) {
        #[cfg(feature = "postgres")]
        if let Self::Batched(BatchedSink::Postgres(sink)) = self {
            sink.expect_stored(seq);
        }
    }

    /// Does nothing: what is forgotten is removed under the topic of today only.
    #[allow(clippy::needless_pass_by_value, reason = "its caller goes next")]
    pub fn remember_topics(&mut self, _topics: Vec<NameTemplate>) {}

    /// If the destination was found to have lost changes: the last row of the log that it still has.
    /// It is expected to have no more from then on.
    pub fn take_lost(&mut self) -> Option<i64> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Batched(BatchedSink::Postgres(sink)) => sink.take_lost(),
            _ => None,
        }
    }
}
