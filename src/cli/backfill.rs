//! `backfill`: searches for customers that are older than the newest 100, and stores them.
//!
//! It makes one search at a time, through the running daemon or directly within the same budget. The
//! store remembers the terms that were searched, so that an interrupted backfill continues.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::direct::{DirectClient, through_daemon};
use super::exit::{self, CONFIG, DATA, ExitError, TRY_AGAIN, UNAVAILABLE};
use super::output;
use super::runtime;
use super::search_index;
use crate::api::Retry;
use crate::backfill::{BackfillStatus, Customer, Planner};
use crate::backoff::Backoff;
use crate::config::Config;
use crate::control::{
    self, ControlError, ControlReply, ControlRequest, SearchRequest, SearchResult,
};
use crate::duration;
use crate::record::{Kind, Route};
use crate::store::{CustomerText, Reader, Store};

/// The waits after an error that may pass and names no time.
const BUSY: Backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(120) };
/// Failures in a row after which the backfill stops. It can be resumed.
const MOST_FAILURES: u32 = 8;
/// How many customers that other routes name are searched for.
const MOST_SUSPECTS: usize = 5_000;
/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(15);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The list to backfill
    #[arg(value_enum)]
    what: Listed,
    /// Forward the customers to the sinks as created; without it they are stored as baseline
    #[arg(long)]
    forward: bool,
    /// Stop after this many searches; the same command continues later
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    most: usize,
    #[command(flatten)]
    json: super::Json,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Listed {
    /// Customers, the only list that the workspace can search
    Customers,
}

/// What `backfill --json` prints for each business.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BackfillResult {
    /// The business (branch); null for the default of the workspace.
    business: Option<String>,
    /// The customers that are known now.
    known: usize,
    /// The customers that this run found.
    found: usize,
    /// The searches that this run sent.
    asked: usize,
    /// How many customers the workspace has, as estimated.
    estimated_total: usize,
}

/// How the searches reach the workspace.
enum Searcher {
    Daemon,
    Direct { client: Box<DirectClient>, store: Store },
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let Listed::Customers = args.what;
    let mirrored: i64 = Reader::open(&config.store.path)?.counts()?.iter().map(|(_, n)| n).sum();
    if mirrored == 0 {
        let text =
            "the mirror is empty, so there is nothing to search from; run shopmirror once first";
        return Err(ExitError { code: UNAVAILABLE, text: text.to_owned() }.into());
    }
    runtime()?.block_on(async {
        let mut searcher = Searcher::choose(config).await?;
        let finished = tokio::select! {
            finished = backfill_all(config, &mut searcher, args) => finished.map(|()| true),
            interrupted = tokio::signal::ctrl_c() => interrupted.map(|()| false).map_err(Into::into),
        };
        if let Searcher::Direct { store, .. } = &searcher {
            store.close().await?;
            search_index::follow(&config.store.path);
        }
        if !finished? {
            let text = "interrupted; the same command continues from here".to_owned();
            return Err(ExitError { code: TRY_AGAIN, text }.into());
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn backfill_all(config: &Config, searcher: &mut Searcher, args: &Args) -> anyhow::Result<()> {
    let mut results = Vec::new();
    let mut left = args.most;
    for business in config.workspace.polled_businesses() {
        let mut planner = planner(config, business.as_deref())?;
        let before = planner.status();
        let mut progress = WalkProgress::new(args.json.json);
        backfill(
            config,
            searcher,
            &mut planner,
            business.as_deref(),
            args.forward,
            &mut left,
            &mut progress,
        )
        .await?;
        let after = planner.status();
        progress.end();
        if args.json.json {
            results.push(BackfillResult {
                business,
                known: after.known,
                found: after.known - before.known,
                asked: after.searches - before.searches,
                estimated_total: after.total,
            });
        } else {
            let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
            let found = count(after.known - before.known);
            let searches = count(after.searches - before.searches);
            output::text(&format!(
                "{} found with {}; {} of about {} customers are known\n",
                output::count(found, "customer", "customers"),
                output::count(searches, "search", "searches"),
                after.known,
                after.total
            ))?;
        }
    }
    if args.json.json {
        output::json(&results)?;
    }
    Ok(())
}

/// A planner that continues from what is stored.
fn planner(config: &Config, business: Option<&str>) -> anyhow::Result<Planner> {
    let reader = Reader::open(&config.store.path)?;
    let mut planner = Planner::default();
    let mut known = HashSet::new();
    reader.each_customer(business, |customer| {
        planner.know(customer_of(&customer));
        known.extend([customer.email, customer.mobile, customer.name]);
    })?;
    let mut suspects = 0;
    for route in [Route::Jobs, Route::Leads, Route::Payments] {
        reader.each_person(route, business, |person| {
            let named = [&person.email, &person.mobile, &person.name];
            let strongest = named.into_iter().find(|text| !text.is_empty());
            if suspects < MOST_SUSPECTS && strongest.is_some_and(|text| known.insert(text.clone()))
            {
                suspects += 1;
                planner.suspect(customer_of(&person));
            }
        })?;
    }
    for (term, shown) in reader.backfill_terms(business)? {
        planner.searched_before(&term, shown as usize);
    }
    Ok(planner)
}

fn customer_of(text: &CustomerText) -> Customer<'_> {
    Customer { id: &text.id, name: &text.name, email: &text.email, mobile: &text.mobile }
}

async fn backfill(
    config: &Config,
    searcher: &mut Searcher,
    planner: &mut Planner,
    business: Option<&str>,
    forward: bool,
    left: &mut usize,
    progress: &mut WalkProgress,
) -> anyhow::Result<()> {
    let kind = if forward { Kind::Created } else { Kind::Baseline };
    let mut refused = 0;
    while *left > 0 {
        let Some(term) = planner.next_term() else { break };
        *left -= 1;
        let request = SearchRequest {
            term: term.clone(),
            business: business.map(str::to_owned),
            store: Some(kind),
            backfill: true,
        };
        match searcher.search(config, request).await? {
            Ok(searched) => {
                refused = 0;
                let found: Vec<CustomerText> =
                    searched.records.iter().filter_map(|r| CustomerText::of(r.get())).collect();
                let found: Vec<Customer<'_>> = found.iter().map(customer_of).collect();
                planner.answered(&term, &found);
            }
            // The workspace may refuse one term, for example as too short, but not all of them.
            Err(wrong) if refused < MOST_FAILURES => {
                tracing::debug!(%wrong, "a term was refused");
                refused += 1;
                planner.refused(&term);
            }
            Err(wrong) => return Err(wrong.into()),
        }
        progress.update(planner.status());
    }
    Ok(())
}

impl Searcher {
    async fn choose(config: &Config) -> anyhow::Result<Self> {
        match control::send(&config.store.path, &ControlRequest::Status).await {
            Ok(_) => return Ok(Self::Daemon),
            Err(ControlError::NotRunning) => {}
            Err(error) => {
                return Err(ExitError { code: TRY_AGAIN, text: error.to_string() }.into());
            }
        }
        let store = Store::open(&config.store.path)?;
        let mut client = Box::new(DirectClient::new(config)?);
        client.confirm(&store).await?;
        Ok(Self::Direct { client, store })
    }

    /// Searches, with retries. The inner error is the workspace's refusal of this term.
    async fn search(
        &mut self,
        config: &Config,
        request: SearchRequest,
    ) -> anyhow::Result<Result<SearchResult, ExitError>> {
        let mut failures = 0;
        loop {
            let (code, text, wait) = match self.search_once(config, request.clone()).await? {
                ControlReply::Done(searched) => return Ok(Ok(searched)),
                ControlReply::Failed { code, text, retry_after_s } => (code, text, retry_after_s),
            };
            let wrong = ExitError { code, text };
            let Some(wait) = wait else {
                // An error about this term: neither about the key nor about the rate.
                let of_term = matches!(code, CONFIG | DATA);
                return if of_term { Ok(Err(wrong)) } else { Err(wrong.into()) };
            };
            failures += 1;
            if failures >= MOST_FAILURES {
                return Err(wrong.into());
            }
            let asked = Duration::try_from_secs_f64(wait).ok();
            tokio::time::sleep(BUSY.wait(failures, fastrand::f64(), asked)).await;
        }
    }

    async fn search_once(
        &mut self,
        config: &Config,
        request: SearchRequest,
    ) -> anyhow::Result<ControlReply<SearchResult>> {
        match self {
            Self::Daemon => match through_daemon(config, &ControlRequest::Search(request)).await {
                Ok(Some(reply)) => Ok(reply),
                Ok(None) => Err(ExitError {
                    code: UNAVAILABLE,
                    text: "the daemon has ended; the same command continues from here".to_owned(),
                }
                .into()),
                Err(error) if exit::code_of(&error) == TRY_AGAIN => Ok(ControlReply::Failed {
                    code: TRY_AGAIN,
                    text: error.to_string(),
                    retry_after_s: Some(1.0),
                }),
                Err(error) => Err(error),
            },
            Self::Direct { client, store } => {
                let error = match client.search(Some(store), request).await? {
                    Ok(searched) => return Ok(ControlReply::Done(searched)),
                    Err(error) => error,
                };
                let wait = match error.retry() {
                    Retry::After(wait) => Some(wait.as_secs_f64()),
                    Retry::Backoff => Some(0.0),
                    Retry::Never => None,
                };
                let code = exit::code_of_api(&error);
                Ok(ControlReply::Failed { code, text: error.to_string(), retry_after_s: wait })
            }
        }
    }
}

/// The progress: a bar on a terminal, a line from time to time elsewhere.
struct WalkProgress {
    bar: Option<ProgressBar>,
    lines: bool,
    began: Instant,
    searches_at_start: Option<usize>,
    said: Instant,
}

impl WalkProgress {
    fn new(quiet: bool) -> Self {
        let terminal = !quiet && std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("{bar:30} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr()).with_style(style)
        });
        let now = Instant::now();
        Self { bar, lines: !quiet && !terminal, began: now, searches_at_start: None, said: now }
    }

    fn update(&mut self, at: BackfillStatus) {
        let start = *self.searches_at_start.get_or_insert(at.searches.saturating_sub(1));
        let each = self.began.elapsed().as_secs_f64() / (at.searches - start).max(1) as f64;
        let left = duration::seconds(each * at.searches_left as f64);
        let text = format!(
            "{} of about {} found, {} searches, about {left} left",
            at.known, at.total, at.searches
        );
        if let Some(bar) = &self.bar {
            bar.set_length(at.total as u64);
            bar.set_position(at.known as u64);
            bar.set_message(text);
        } else if self.lines && self.said.elapsed() >= LINE_EVERY {
            self.said = Instant::now();
            output::aside(&text);
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
