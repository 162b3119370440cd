//! A shop in this process on virtual time: the sandbox's router, and daemons that mirror it with
//! the real dispatcher, store and deliverers.
//!
//! Nothing opens a socket. The store and the file sink write real files through the blocking pool,
//! during which tokio does not let virtual time pass.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sandbox::{Options, Received, Route, Sandbox};
use shopmirror::api::{Client, Transport};
use shopmirror::config::{Base, Config};
use shopmirror::daemon::{deliverers, dispatcher};
use shopmirror::poll::{BackgroundClient, Dispatcher, DispatcherRequest, PollingStatus};
use shopmirror::store::Store;
use shopmirror_core::clock::Clock;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::support::RouterTransport;

/// An hour of virtual time.
pub(crate) const HOUR: f64 = 3600.0;

/// One sandbox and its clock.
pub(crate) struct VirtualShop {
    pub(crate) sandbox: Sandbox,
    transport: Arc<RouterTransport>,
    clock: Clock,
}

impl VirtualShop {
    /// A shop whose history, delays and jitter follow from `seed`.
    pub(crate) fn new(options: Options, seed: u64) -> Self {
        // The dispatcher draws its jitter from this thread's generator.
        fastrand::seed(seed);
        let sandbox = Sandbox::new(Options { seed, ..options });
        let transport = Arc::new(RouterTransport::new(sandbox.router(), seed));
        let start = sandbox.now();
        Self {
            sandbox,
            transport,
            clock: Clock::starting_at(start),
        }
    }

    /// Seconds since the shop was made.
    pub(crate) fn now(&self) -> f64 {
        self.clock.now().elapsed.as_secs_f64()
    }

    /// The wall clock of the daemons.
    pub(crate) fn wall(&self) -> Timestamp {
        self.clock.now().wall
    }

    /// Waits until the shop is so many seconds old.
    pub(crate) async fn until(&self, seconds: f64) {
        tokio::time::sleep_until(self.clock.instant(Duration::from_secs_f64(seconds))).await;
    }

    /// Pings with the daemons' key at an even pace between two of the shop's seconds, as another
    /// client would; returns the statuses.
    pub(crate) async fn rival(&self, per_minute: u32, from: f64, to: f64) -> Vec<u16> {
        let config = self.config(&tempfile::tempdir().unwrap(), "");
        let client = self.client(&config);
        let every = 60.0 / f64::from(per_minute);
        let mut statuses = Vec::new();
        let mut at = from;
        while at < to {
            self.until(at).await;
            let (answer, rate) = client.automation_ping().await;
            statuses.push(if rate.refused {
                429
            } else {
                answer.map_or(500, |_| 200)
            });
            at += every;
        }
        statuses
    }

    fn client(&self, config: &Config) -> Client {
        let transport = Arc::clone(&self.transport) as Arc<dyn Transport>;
        let key = self.sandbox.automation_key().into();
        Client::new(
            &config.workspace,
            &config.poll,
            transport,
            key,
            self.clock.clone(),
        )
    }

    /// A configuration with `rest` behind its workspace section.
    fn config(&self, dir: &TempDir, rest: &str) -> Config {
        let text = format!("[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n{rest}");
        let env_key = Some(self.sandbox.automation_key().into());
        let base = Base {
            dir: dir.path().to_owned(),
            env_key,
            ..Base::default()
        };
        Config::parse(&text, "shopmirror.toml", &base).unwrap()
    }

    /// The polls received between two of the shop's seconds.
    pub(crate) fn polls(&self, from: f64, to: f64) -> Vec<Received> {
        let mut log = self.sandbox.requests().log;
        log.retain(|r| Route::ALL.iter().any(|route| route.segment() == r.route));
        log.retain(|r| (from..to).contains(&r.elapsed_s));
        log
    }
}

/// A folder with a store and one file sink, and the tasks that work on it.
pub(crate) struct VirtualDaemon<'a> {
    shop: &'a VirtualShop,
    config: Config,
    _dir: TempDir,
    running: Option<Running>,
}

struct Running {
    store: Store,
    requests: mpsc::Sender<DispatcherRequest>,
    finish: CancellationToken,
    polling: JoinHandle<Dispatcher>,
    delivering: JoinSet<()>,
}

impl<'a> VirtualDaemon<'a> {
    /// A daemon that is not running yet; `rest` follows the workspace section.
    pub(crate) fn new(shop: &'a VirtualShop, rest: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sink = "[sinks.audit]\ntype = \"file\"\npath = \"audit.ndjson\"\n";
        let config = shop.config(&dir, &format!("{rest}{sink}"));
        Self {
            shop,
            config,
            _dir: dir,
            running: None,
        }
    }

    /// Opens the store and starts polling and delivery.
    pub(crate) async fn start(&mut self) {
        let path = self.config.store.path.clone();
        let opened = tokio::task::spawn_blocking(move || Store::open(&path))
            .await
            .unwrap();
        self.start_on(opened.unwrap(), None).await;
    }

    /// Ends the tasks and starts them anew on the same store, as SIGHUP does.
    pub(crate) async fn reload(&mut self) {
        let running = self.running.take().unwrap();
        running.finish.cancel();
        let polled = running.polling.await.unwrap();
        running.delivering.join_all().await;
        self.start_on(running.store, Some(polled)).await;
    }

    async fn start_on(&mut self, store: Store, before: Option<Dispatcher>) {
        let shop = self.shop;
        let finish = CancellationToken::new();
        let mut delivering = JoinSet::new();
        for sink in deliverers(&self.config, &shop.clock, &store).await.unwrap() {
            let (finish, cut) = (finish.clone(), CancellationToken::new());
            delivering.spawn(async move { sink.run(finish, cut).await.unwrap() });
        }
        let client = shop.client(&self.config);
        let clock = shop.clock.clone();
        let dispatcher = dispatcher(&self.config, client, clock, &store, before)
            .await
            .unwrap();
        let (requests, mut inbox) = mpsc::channel(4);
        let stop = finish.clone();
        let polling = tokio::spawn(async move { dispatcher.run(&mut inbox, stop).await.unwrap() });
        self.running = Some(Running {
            store,
            requests,
            finish,
            polling,
            delivering,
        });
    }

    /// Ends the tasks after the work in hand and closes the store, as the first signal does.
    pub(crate) async fn stop(&mut self) {
        let running = self.running.take().unwrap();
        running.finish.cancel();
        running.polling.await.unwrap();
        running.delivering.join_all().await;
        running.store.close().await.unwrap();
    }

    /// Drops the tasks where they are, as a kill does; what was only remembered is lost.
    pub(crate) async fn kill(&mut self) {
        let mut running = self.running.take().unwrap();
        running.polling.abort();
        assert!(running.polling.await.err().unwrap().is_cancelled());
        running.delivering.shutdown().await;
    }

    pub(crate) async fn status(&self) -> PollingStatus {
        let (reply, status) = oneshot::channel();
        let running = self.running.as_ref().unwrap();
        running
            .requests
            .send(DispatcherRequest::Status(reply))
            .await
            .ok()
            .unwrap();
        status.await.unwrap()
    }

    /// Sends background requests through the dispatcher.
    pub(crate) fn background(&self) -> BackgroundClient {
        BackgroundClient::new(self.running.as_ref().unwrap().requests.clone())
    }
}
