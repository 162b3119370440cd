//! How `init` and `check` reach the workspace: with a client of their own, which keeps within the
//! budget of the daemon.

use std::path::PathBuf;
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
use crate::store::{Kept, KnownWorkspace, Operator, OtherWorkspace, Reader, judge_workspace};

/// How long a command waits before it says what it waits for.
const SILENCE: Duration = Duration::from_secs(2);

/// A client of the workspace. Its budget counts what earlier processes have
/// sent, and the next one counts what it sends.
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
        let before = Reader::open(&store).ok();
        let before = before.and_then(|reader| reader.kept::<Spending>(Kept::SPENDING).ok()?);
        if let Some(before) = before {
            budget.resume(
                &before,
                &client.account(),
                clock.now(),
                &clock.machine_time(boot::read),
            );
        }
        budget.start_cycle(1, clock.now());
        Ok(Self {
            client,
            budget,
            clock,
            store,
        })
    }

    /// Changes what the next process has to know. Without a store, or without leave to write to it,
    /// nothing is noted.
    fn note(&self, change: impl FnOnce(&mut Spending, &MachineTime)) {
        let (now, machine) = (self.clock.now(), self.clock.machine_time(boot::read));
        let Ok(mut operator) = Operator::open(&self.store) else {
            return;
        };
        let _ = operator.change_kept(Kept::SPENDING, |before| match before {
            Some(mut before) => {
                change(&mut before, &machine);
                before
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
        say_if_long(allowed).await;
        self.note(Spending::add);
        let (result, rate) = request(&self.client).await;
        self.budget.observe(&poll::seen(&rate), self.clock.now());
        if let Some(wait) = self.budget.resting(self.clock.now()) {
            self.note(|spending, now| spending.rest(wait, self.client.account(), now));
        }
        result
    }

    /// Which address and key the requests go to, as [`Client::account`] says it.
    pub(super) fn account(&self) -> String {
        self.client.account()
    }

    /// Asks for the name of the workspace; returns the workspace if it is not the one that filled
    /// the store.
    pub(super) async fn other_workspace(
        &mut self,
        known: &KnownWorkspace,
    ) -> Result<Option<OtherWorkspace>, ApiError> {
        let ping = self.request(Client::integrations_ping).await?;
        let name = ping.workspace.filter(|name| !name.trim().is_empty());
        Ok(name.and_then(|name| {
            judge_workspace(Some(known), self.account(), &name, self.clock.now().wall).err()
        }))
    }
}

/// Waits for a free request, and says so if that takes some time.
pub(super) async fn say_if_long<T>(waits: impl Future<Output = T>) -> T {
    tokio::pin!(waits);
    tokio::select! {
        done = &mut waits => return done,
        () = tokio::time::sleep(SILENCE) => {}
    }
    output::aside("waiting for a free request in the rate budget (usually under a minute)");
    waits.await
}
