//! The client with which `init` and `check` reach the workspace. It keeps within the budget of the
//! daemon.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use shopmirror_core::budget::{Budget, Purpose, Spending};
use shopmirror_core::clock::{Clock, MachineTime};

use super::output;
use crate::api::{ApiError, Client, HttpTransport, RateHeaders, TransportBuildError};
use crate::config::Config;
use crate::files::boot;
use crate::poll;
use crate::store::{MetaKey, Operator, OtherWorkspace, Reader, StoredWorkspace, judge_workspace};

/// How long a command waits before it prints what it waits for.
const SILENCE: Duration = Duration::from_secs(2);

/// A client of the workspace. Its budget counts the requests of earlier processes, and the next
/// process counts those of this one.
pub(super) struct DirectClient {
    client: Client,
    budget: Budget,
    clock: Clock,
    store: PathBuf,
}

impl DirectClient {
    pub(super) fn new(config: &Config, key: SecretString) -> Result<Self, TransportBuildError> {
        let clock = Clock::system();
        let transport = Arc::new(HttpTransport::new(&config.workspace)?);
        let client = Client::new(
            &config.workspace,
            &config.poll,
            transport,
            key,
            clock.clone(),
        );
        let store = config.store.path.clone();
        let mut budget = Budget::new(config.budget, clock.now());
        if let Some(spending) = stored_spending(&store) {
            let machine = clock.machine_time(boot::read);
            budget.resume(&spending, &client.account(), clock.now(), &machine);
        }
        budget.start_cycle(1, clock.now());
        if let Ok(reader) = Reader::open(&store)
            && let Ok(Some(workspace)) = reader.workspace()
            && workspace.is_of(&client.account())
        {
            client.set_address_proven();
        }
        Ok(Self {
            client,
            budget,
            clock,
            store,
        })
    }

    /// Changes the stored requests, which the next process counts. Without a store, or without the
    /// right to write to it, nothing is stored.
    fn store_spending(&self, change: impl FnOnce(&mut Spending, &MachineTime)) {
        let now = self.clock.now();
        let machine = self.clock.machine_time(boot::read);
        let Ok(mut operator) = Operator::open(&self.store) else {
            return;
        };
        let _ = operator.update_value(MetaKey::SPENDING, |stored| match stored {
            Some(mut spending) => {
                change(&mut spending, &machine);
                spending
            }
            None => self
                .budget
                .spending(self.client.account(), true, now, machine),
        });
    }

    /// Makes one request as soon as the budget allows it.
    pub(super) async fn request<T>(
        &mut self,
        request: impl AsyncFnOnce(&Client) -> (Result<T, ApiError>, RateHeaders),
    ) -> Result<T, ApiError> {
        let allowed = async {
            while let Err(at) = self.budget.try_take(Purpose::Poll, self.clock.now()) {
                tokio::time::sleep_until(self.clock.instant(at)).await;
            }
        };
        note_if_long(allowed).await;
        self.store_spending(Spending::add);
        let (result, rate) = request(&self.client).await;
        self.budget.observe(&poll::seen(&rate), self.clock.now());
        if let Some(wait) = self.budget.resting(self.clock.now()) {
            self.store_spending(|spending, now| spending.rest(wait, self.client.account(), now));
        }
        result
    }

    /// The address and the key of the requests, in the form of [`Client::account`].
    pub(super) fn account(&self) -> String {
        self.client.account()
    }

    /// Asks for the name of the workspace; returns the workspace if it is not the one that filled
    /// the store.
    pub(super) async fn other_workspace(
        &mut self,
        stored: &StoredWorkspace,
    ) -> Result<Option<OtherWorkspace>, ApiError> {
        let ping = self.request(Client::integrations_ping).await?;
        match ping.workspace {
            Some(name) if !name.trim().is_empty() => {
                let now = self.clock.now().wall;
                Ok(judge_workspace(Some(stored), self.account(), &name, now).err())
            }
            _ => Ok(None),
        }
    }
}

/// The requests that earlier processes have sent, if the store can be read.
fn stored_spending(store: &Path) -> Option<Spending> {
    let reader = Reader::open(store).ok()?;
    reader.value(MetaKey::SPENDING).ok()?
}

/// Waits for a free request, and prints a note if that takes some time.
pub(super) async fn note_if_long<T>(waits: impl Future<Output = T>) -> T {
    tokio::pin!(waits);
    tokio::select! {
        done = &mut waits => return done,
        () = tokio::time::sleep(SILENCE) => {}
    }
    output::print_note("waiting for a free request in the rate budget (usually under a minute)");
    waits.await
}
