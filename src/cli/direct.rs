//! How a command reaches the workspace: through the running daemon, whose budget it then shares, or
//! directly if no daemon runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use super::exit::{CONFIG, TRY_AGAIN, UNAVAILABLE, refuse};
use super::output;
use super::status::decoded;
use crate::api::{ApiError, Client, HttpTransport, RateHeaders, TransportBuildError};
use crate::budget::{Budget, Purpose, Spending};
use crate::clock::{Clock, MachineTime};
use crate::config::Config;
use crate::control::{self, ControlError, ControlRequest, Refusal, SearchRequest, SearchResult};
use crate::poll;
use crate::store::{
    Kept, KnownWorkspace, Operator, OtherWorkspace, Reader, Store, judge_workspace,
};

/// How long a command waits before it says what it waits for.
const SILENCE: Duration = Duration::from_secs(2);

/// A client of the workspace for use while no daemon runs. Its budget counts what earlier processes have
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
        let client = Client::new(&config.workspace, &config.poll, transport, key, clock.clone());
        let store = config.store.path.clone();
        let mut budget = Budget::new(config.budget, clock.now());
        let before = Reader::open(&store).ok();
        let before = before.and_then(|reader| reader.kept::<Spending>(Kept::SPENDING).ok()?);
        if let Some(before) = before {
            budget.resume(&before, &client.account(), clock.now(), &clock.machine());
        }
        budget.start_cycle(1, clock.now());
        Ok(Self { client, budget, clock, store })
    }

    /// Changes what the next process has to know. Without a store, or without leave to write to it, nothing
    /// is noted.
    fn note(&self, change: impl FnOnce(&mut Spending, &MachineTime)) {
        let (now, machine) = (self.clock.now(), self.clock.machine());
        let Ok(mut operator) = Operator::open(&self.store) else { return };
        let _ = operator.change_kept(Kept::SPENDING, |before| match before {
            Some(mut before) => {
                change(&mut before, &machine);
                before
            }
            None => self.budget.spending(self.client.account(), true, now, machine),
        });
    }

    /// Waits until the budget allows a request.
    async fn allowed(&mut self) {
        while let Err(at) = self.budget.try_take(Purpose::Poll, self.clock.now()) {
            tokio::time::sleep_until(self.clock.instant(at)).await;
        }
    }

    /// Makes one request as soon as the budget allows it.
    pub(super) async fn request<T>(
        &mut self,
        request: impl AsyncFnOnce(&Client) -> (Result<T, ApiError>, RateHeaders),
    ) -> Result<T, ApiError> {
        say_if_long(self.allowed()).await;
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

    /// Asks for the name of the workspace; returns the workspace if it is not the one that filled the store.
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

    /// Fails if the address and key lead to another workspace than the one that filled the store, whose
    /// records must not get into it.
    pub(super) async fn confirm(&mut self, store: &Store) -> anyhow::Result<()> {
        let known = store.read(|reader| reader.workspace()).await?;
        let Some(known) = known.filter(|known| !known.is_of(&self.account())) else {
            return Ok(());
        };
        match self.other_workspace(&known).await? {
            Some(other) => refuse(CONFIG, other.to_string()),
            None => Ok(()),
        }
    }

    /// Searches customers and stores what the request says.
    async fn search(
        &mut self,
        store: Option<&Store>,
        request: SearchRequest,
    ) -> anyhow::Result<Result<SearchResult, Refusal>> {
        let searched_after = store.map_or(0, Store::seq);
        let (term, business) = (request.term.clone(), request.business.clone());
        let page =
            self.request(async |client| client.search_customers(&term, business.as_deref()).await);
        let page = match page.await {
            Ok(page) => page,
            Err(error) => return Ok(Err(crate::daemon::refused(&error))),
        };
        match request.keep(page, store, searched_after, self.clock.now().wall).await {
            Ok(found) => Ok(Ok(found)),
            Err(error) if error.is_transient() => Ok(Err(crate::daemon::not_stored(&error))),
            Err(error) => Err(error.into()),
        }
    }
}

/// How searches reach the workspace.
pub(super) enum Searcher {
    Daemon,
    Direct { client: Box<DirectClient>, store: Option<Store> },
}

impl Searcher {
    /// Through the daemon if one runs. `stores` says whether something found will be stored.
    pub(super) async fn choose(config: &Config, stores: bool) -> anyhow::Result<Self> {
        match control::send(&config.store.path, &ControlRequest::Status).await {
            Ok(_) => return Ok(Self::Daemon),
            Err(ControlError::NotRunning) => {}
            Err(error) => {
                return refuse(TRY_AGAIN, error.to_string());
            }
        }
        let mut client = Box::new(DirectClient::new(config, config.workspace.key.read()?)?);
        let store = stores.then(|| Store::open(&config.store.path)).transpose()?;
        if let Some(store) = &store {
            client.confirm(store).await?;
        }
        Ok(Self::Direct { client, store })
    }

    /// Makes one search.
    pub(super) async fn search(
        &mut self,
        config: &Config,
        request: SearchRequest,
    ) -> anyhow::Result<Result<SearchResult, Refusal>> {
        match self {
            // A backfill shows its own progress.
            Self::Daemon if request.backfill => through_daemon(config, request).await,
            Self::Daemon => say_if_long(through_daemon(config, request)).await,
            Self::Direct { client, store } => client.search(store.as_ref(), request).await,
        }
    }

    /// Closes the store, if it was opened, and brings the search index up to date.
    pub(super) async fn close(self, config: &Config) -> anyhow::Result<()> {
        if let Self::Direct { store: Some(store), .. } = self {
            store.close().await?;
            super::index_log(&config.store.path);
        }
        Ok(())
    }
}

/// Waits for a free request, and says so if that takes some time.
async fn say_if_long<T>(waits: impl Future<Output = T>) -> T {
    tokio::pin!(waits);
    tokio::select! {
        done = &mut waits => return done,
        () = tokio::time::sleep(SILENCE) => {}
    }
    output::aside("waiting for a free request in the rate budget (usually under a minute)");
    waits.await
}

/// Has the daemon make a search.
async fn through_daemon(
    config: &Config,
    request: SearchRequest,
) -> anyhow::Result<Result<SearchResult, Refusal>> {
    match control::send(&config.store.path, &ControlRequest::Search(request)).await {
        Ok(reply) => decoded(&reply),
        Err(ControlError::NotRunning) => {
            refuse(UNAVAILABLE, "the daemon has ended: run the same command again")
        }
        Err(error) => {
            let retry_after = Some(Duration::from_secs(1));
            Ok(Err(Refusal { code: TRY_AGAIN, text: error.to_string(), retry_after }))
        }
    }
}
