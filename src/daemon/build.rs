//! Builds the parts of a daemon from its configuration, and stores what readers need of it.
//!
//! No task is started here.

use std::sync::Arc;

use jiff::Timestamp;
use shopmirror_core::clock::Clock;
use shopmirror_core::record::PollerId;
use shopmirror_core::schedule::PollerSettings;
use tokio::sync::watch;

use crate::api::{Client, HttpTransport, Transport};
use crate::config::{self, Config};
use crate::deliver::{self, Deliverer, Positions, Room, SinkStatus};
use crate::poll::{self, Dispatcher, PollerPlan};
use crate::sink::{self, SinkBuildError};
use crate::store::{JobWords, MetaKey, Store, StoreError};

/// One delivery task, not started yet, and what wakes it.
///
/// # Errors
/// If the sink's configuration can never work.
pub(super) fn deliverer(
    name: &str,
    settings: &config::SinkSettings,
    clock: &Clock,
    store: &Store,
    (room, positions): (&Room, &Positions),
) -> Result<(Deliverer, watch::Sender<()>), SinkBuildError> {
    let (wake, woken) = watch::channel(());
    let deliverer = Deliverer {
        name: name.to_owned(),
        sinks: sink::build(name, &settings.kind)?,
        settings: settings.clone(),
        store: store.clone(),
        clock: clock.clone(),
        room: room.clone(),
        positions: positions.clone(),
        wake: woken,
        view: watch::Sender::new(None::<SinkStatus>),
    };
    Ok((deliverer, wake))
}

/// One delivery task for each sink, not started yet. From this call on, each sink misses nothing,
/// and a sink that is no longer configured no longer keeps the log from being pruned.
///
/// # Errors
/// If a sink's configuration can never work, or the store fails.
pub async fn deliverers(
    config: &Config,
    clock: &Clock,
    store: &Store,
) -> anyhow::Result<Vec<Deliverer>> {
    let room = Room::default();
    let positions = Positions::default();
    let shared = (&room, &positions);
    let mut deliverers = Vec::new();
    for (name, settings) in &config.sinks {
        deliverers.push(deliverer(name, settings, clock, store, shared)?.0);
    }
    for deliverer in &deliverers {
        deliverer.open().await?;
    }
    deliver::retire(store, config.sinks.keys().cloned().collect()).await?;
    Ok(deliverers)
}

/// One poller for each enabled route and business.
#[must_use]
pub fn poller_plan(config: &Config) -> Vec<PollerPlan> {
    let mut plan = Vec::new();
    for route in &config.routes {
        for business in config.workspace.polled_businesses() {
            let id = PollerId {
                route: route.route,
                business,
            };
            let settings = PollerSettings {
                limit: config.poll.limit,
                // A fixed schedule is not slowed by the bounds of the adaptive one.
                min_interval: route.every.unwrap_or(route.min_interval),
                max_interval: route.every.unwrap_or(route.max_interval),
            };
            plan.push(PollerPlan { id, settings });
        }
    }
    plan
}

/// The client of the configured workspace.
///
/// # Errors
/// When the key cannot be read or the HTTP client cannot be built.
pub fn client(config: &Config, clock: Clock) -> anyhow::Result<Client> {
    let key = config.workspace.key.read()?;
    let transport: Arc<dyn Transport> = Arc::new(HttpTransport::new(&config.workspace)?);
    Ok(Client::new(
        &config.workspace,
        &config.poll,
        transport,
        key,
        clock,
    ))
}

/// The client of the configured workspace, if the daemon can start with this configuration. Creates
/// nothing.
///
/// The sinks are built to find what is wrong with them before a store is created or a running sink
/// is replaced. The delivery tasks build theirs later, and only those that are new or changed.
///
/// # Errors
/// As [`client`], or when a sink can never work.
pub fn checked_client(config: &Config, clock: Clock) -> anyhow::Result<Client> {
    let client = client(config, clock)?;
    for (name, sink) in &config.sinks {
        sink::build(name, &sink.kind)?;
    }
    Ok(client)
}

/// The dispatcher of polls: `before` with another configuration, or a new one. Stores what the store
/// and its readers need of the configuration.
///
/// # Errors
/// When the store cannot be read, or cannot take which fields are ignored.
pub async fn dispatcher(
    config: &Config,
    client: Client,
    clock: Clock,
    store: &Store,
    before: Option<Dispatcher>,
) -> anyhow::Result<Dispatcher> {
    let now = clock.now().wall;
    let dispatcher = match before {
        Some(before) => before,
        None => {
            let account = client.account();
            let budget = poll::first_budget(config.budget, store, &account, &clock).await?;
            Dispatcher::new(client.clone(), store.clone(), clock, budget)
        }
    };
    store.ignore_fields(config.ignored_fields()).await?;
    if let Err(error) = save_for_reports(config, store, now).await {
        const STALE: &str = "could not store what reports need of the configuration: they use what \
            was stored before; reload when the store can be written";
        // That the store cannot be written is said where polling waits.
        if error.is_transient() {
            tracing::info!(%error, "{STALE}");
        } else {
            tracing::warn!(%error, "{STALE}");
        }
    }
    let key_source = config.workspace.key.clone();
    let read_key = Arc::new(move || key_source.read().ok());
    let plan = poller_plan(config);
    Ok(dispatcher
        .configured(client, config.budget, plan, read_key)
        .await?)
}

/// Stores the settings that reports read from the store, also when no configuration is at hand.
async fn save_for_reports(
    config: &Config,
    store: &Store,
    now: Timestamp,
) -> Result<(), StoreError> {
    let zone = config.workspace.time_zone.clone();
    let reading = config.reports.read_settings(&zone);
    store.store_time_zone(zone, now).await?;
    store.configure_reading(reading).await?;
    store
        .set_value(MetaKey::SHARED_CONFIG, &config.for_readers)
        .await?;
    let words = JobWords {
        cancelled_status: config.reports.cancelled_status.clone(),
    };
    store.set_job_words(words).await?;
    store.link_jobs(config.reports.job_link.clone()).await
}
