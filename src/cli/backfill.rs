//! `backfill`: searches for customers that are older than the newest 100, and stores them.
//!
//! The daemon makes one search at a time. The store remembers the terms that were searched, so that
//! an interrupted backfill continues.

use std::process::ExitCode;
use std::time::Duration;

use shopmirror_core::backoff::Backoff;
use shopmirror_core::record::Kind;

use super::exit::{CONFIG, DATA, TRY_AGAIN, refuse};
use super::output::{self, Bar, Output};
use super::runtime;
use super::search::ask_daemon;
use crate::config::Config;
use crate::control::{Refusal, SearchRequest, SearchResult};
use crate::recover::{MAX_SHOWN, Prefixes};
use crate::store::Reader;

/// The waits after an error that may pass and names no time.
const BUSY: Backoff = Backoff {
    base: Duration::from_secs(2),
    cap: Duration::from_secs(120),
};
/// Failures in a row after which the backfill stops. It can be resumed.
const MAX_FAILURES: u32 = 8;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Stop after this many searches; the same command continues later
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    most: usize,
}

/// What `backfill --json` prints for each business.
#[derive(serde::Serialize)]
struct BackfillResult {
    /// The business (branch); null for the default of the workspace.
    business: Option<String>,
    /// The customers that this run found.
    found: usize,
    /// The searches that this run sent.
    asked: usize,
    /// Whether the backfill ended because no search is left or the latest ones found no one; if
    /// not, the same command continues.
    finished: bool,
}

pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(async {
        tokio::select! {
            finished = backfill_all(config, args, out) => finished,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                refuse(TRY_AGAIN, "interrupted; the same command continues from here")
            }
        }
    })
}

async fn backfill_all(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    let mut results = Vec::new();
    let mut most = args.most;
    for business in config.workspace.polled_businesses() {
        let result = backfill(config, business, most).await?;
        most -= result.asked;
        results.push(result);
    }
    let lines: String = results.iter().map(line).collect();
    out.done(&results, &lines)
}

fn line(result: &BackfillResult) -> String {
    let found = output::count(result.found, "customer", "customers");
    let asked = output::count(result.asked, "search", "searches");
    let end = if result.finished {
        "more would find no one"
    } else {
        "the same command continues"
    };
    format!("{found} found with {asked}; {end}\n")
}

/// Makes up to `most` searches in a business, from where an earlier run stopped.
async fn backfill(
    config: &Config,
    business: Option<String>,
    most: usize,
) -> anyhow::Result<BackfillResult> {
    let reader = Reader::open(&config.store.path)?;
    let searched = reader.backfill_terms(business.as_deref())?;
    let mut prefixes = Prefixes::resume(&reader.customer_texts()?, &searched);
    let bar = Bar::rows();
    let mut result = BackfillResult {
        business: business.clone(),
        found: 0,
        asked: 0,
        finished: false,
    };
    let mut refused = 0;
    while result.asked < most {
        let Some(term) = prefixes.take() else {
            result.finished = true;
            break;
        };
        result.asked += 1;
        let request = SearchRequest {
            term: term.clone(),
            business: business.clone(),
            // Not forwarded: they are old.
            store: Some(Kind::Baseline),
            backfill: true,
        };
        match search(config, request).await? {
            Ok(searched) => {
                refused = 0;
                let new = searched.found.map_or(0, |found| found.created);
                result.found += new;
                let shown = searched.records.len();
                // The texts are needed only to lengthen the term.
                let mut texts = String::new();
                if shown >= MAX_SHOWN {
                    texts = reader.customer_texts()?;
                }
                prefixes.searched(&term, shown, new, &texts);
            }
            // The workspace may refuse one term, but not all of them.
            Err(refusal) if refused < MAX_FAILURES => {
                tracing::debug!(wrong = %refusal, "a term was refused");
                refused += 1;
            }
            Err(refusal) => return Err(refusal.into()),
        }
        let all = result.asked + prefixes.left();
        bar.at(result.asked as u64, all as u64);
    }
    Ok(result)
}

/// Searches, with retries. The inner error is the workspace's refusal of this term.
async fn search(
    config: &Config,
    request: SearchRequest,
) -> anyhow::Result<Result<SearchResult, Refusal>> {
    let mut failures = 0;
    loop {
        let refusal = match ask_daemon(config, request.clone()).await? {
            Ok(searched) => return Ok(Ok(searched)),
            Err(refusal) => refusal,
        };
        failures += 1;
        match refusal.retry_after {
            Some(wait) if failures < MAX_FAILURES => {
                tokio::time::sleep(BUSY.wait(failures, fastrand::f64(), Some(wait))).await;
            }
            // An error about this term: neither about the key nor about the rate.
            None if matches!(refusal.code, CONFIG | DATA) => return Ok(Err(refusal)),
            _ => return Err(refusal.into()),
        }
    }
}
