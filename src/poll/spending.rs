//! Saves how many requests were sent, for the next process: one row of the store, which is read
//! once. It is written when polling begins and ends, and with each of the first requests, so that
//! a process that is killed again and again does not suspect requests that were never sent.

use shopmirror_core::budget::BudgetSettings;
use shopmirror_core::budget::{Budget, Spending};
use shopmirror_core::clock::Clock;

use super::Dispatcher;
use crate::files::boot;
use crate::store::{MetaKey, Store, StoreError};

/// The budget of a process that just began, which counts what earlier ones sent on this account.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn first_budget(
    settings: BudgetSettings,
    store: &Store,
    account: &str,
    clock: &Clock,
) -> Result<Budget, StoreError> {
    let mut budget = Budget::new(settings, clock.now());
    let before = store
        .read(|reader| reader.value::<Spending>(MetaKey::SPENDING))
        .await?;
    if let Some(before) = before {
        let machine = clock.machine_time(boot::read);
        budget.resume(&before, account, clock.now(), &machine);
    }
    Ok(budget)
}

impl Dispatcher {
    /// Records that requests follow. If that fails, no request may skip the spacing.
    pub(super) async fn begin_sending(&mut self) -> Result<(), StoreError> {
        let noted = self.note_spending(false).await;
        if noted.is_err() {
            self.budget.start_cycle(0, self.clock.now());
        }
        self.pause_if_transient(noted)
    }

    /// Saves what the next process needs; `has_ended` if no request follows.
    pub(super) async fn note_spending(&self, has_ended: bool) -> Result<(), StoreError> {
        let spending = self.spending(has_ended);
        self.store.set_value(MetaKey::SPENDING, &spending).await
    }

    /// What the next process needs to know of the requests that were sent.
    pub(super) fn spending(&self, has_ended: bool) -> Spending {
        let account = self.client.account();
        let machine = self.clock.machine_time(boot::read);
        self.budget
            .spending(account, has_ended, self.clock.now(), machine)
    }
}
