//! The commands that ask the workspace: `search` and `custom-fields`. They go through the running
//! daemon, whose budget they share; without one they ask by themselves.

use std::process::ExitCode;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::exit::{TRY_AGAIN, Wrong};
use super::listing::value_cell;
use super::output::{self, cell};
use super::runtime;
use super::status::understood;
use crate::api::{ApiError, Client, Rate};
use crate::budget::{Budget, Purpose};
use crate::clock::Clock;
use crate::config::Config;
use crate::poll;
use crate::record::Kind;
use crate::status::{Ask, AskError, SearchAsk, Searched, Told, ask};
use crate::store::{FormChange, Reader, Search, Store};

/// How long an answer may take before it is said what is waited for.
const SILENCE: Duration = Duration::from_secs(2);

/// The most customers an answer holds (contract, "Limits").
const MOST_FOUND: usize = 25;

/// Asks the workspace while no daemon runs, within the same budget.
pub(super) struct Alone {
    client: Client,
    budget: Budget,
    clock: Clock,
}

impl Alone {
    pub(super) fn new(config: &Config) -> anyhow::Result<Self> {
        Ok(Self::with(crate::daemon::client(config)?, config))
    }

    pub(super) fn with(client: Client, config: &Config) -> Self {
        let clock = Clock::system();
        let budget = Budget::new(config.budget, clock.now());
        Self { client, budget, clock }
    }

    /// Makes one request when the budget grants it.
    pub(super) async fn ask<T>(
        &mut self,
        request: impl AsyncFnOnce(&Client) -> (Result<T, ApiError>, Rate),
    ) -> Result<T, ApiError> {
        while let Err(at) = self.budget.try_take(Purpose::Poll, self.clock.now()) {
            tokio::time::sleep_until(self.clock.instant(at)).await;
        }
        let (answer, rate) = request(&self.client).await;
        self.budget.observe(&poll::seen(&rate), self.clock.now());
        answer
    }

    /// Searches customers, and stores what is found if that is asked; the inner error is the
    /// workspace's.
    pub(super) async fn search(
        &mut self,
        store: Option<&Store>,
        question: SearchAsk,
    ) -> anyhow::Result<Result<Searched, ApiError>> {
        let SearchAsk { term, business, store: kind, backfill } = question;
        let asked_after = store.map_or(0, Store::seq);
        let asked = business.as_deref();
        let page = match self.ask(async |client| client.search_customers(&term, asked).await).await
        {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
        let records = page
            .records()
            .iter()
            .map(|record| RawValue::from_string(page.text(record).to_owned()))
            .collect::<Result<_, _>>()?;
        let found = match store.zip(kind) {
            None => None,
            Some((store, kind)) => {
                let at = jiff::Timestamp::now();
                let backfill_term = backfill.then_some(term);
                let search = Search { business, page, kind, at, asked_after, backfill_term };
                Some(store.store_found(search).await?)
            }
        };
        Ok(Ok(Searched { records, found }))
    }
}

/// As [`through_daemon`], for a person who watches.
async fn patiently<T: DeserializeOwned>(
    config: &Config,
    question: &Ask,
) -> anyhow::Result<Option<Told<T>>> {
    let answered = through_daemon(config, question);
    tokio::pin!(answered);
    tokio::select! {
        answer = &mut answered => return answer,
        () = tokio::time::sleep(SILENCE) => {}
    }
    output::aside(
        "waiting: the daemon asks when its polls leave a request of the budget, a minute at most as a rule",
    );
    answered.await
}

/// Asks the daemon; `None` when none runs.
pub(super) async fn through_daemon<T: DeserializeOwned>(
    config: &Config,
    question: &Ask,
) -> anyhow::Result<Option<Told<T>>> {
    match ask(&config.store.path, question).await {
        Ok(answer) => Ok(Some(understood(&answer)?)),
        Err(AskError::NotRunning) => Ok(None),
        Err(error @ AskError::NotListening(_)) => {
            Err(Wrong { code: TRY_AGAIN, text: error.to_string() }.into())
        }
        Err(AskError::NoAnswer(_)) => Err(Wrong {
            code: TRY_AGAIN,
            text: "the daemon runs but has not answered: polls need its whole budget, or it waits for something; see `shopmirror status` and try again".to_owned(),
        }
        .into()),
    }
}

fn done<T>(told: Told<T>) -> anyhow::Result<T> {
    match told {
        Told::Done(done) => Ok(done),
        Told::Failed { code, text, .. } => Err(Wrong { code, text }.into()),
    }
}

pub(super) fn search(
    config: &Config,
    term: &str,
    store: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let question = SearchAsk {
        term: term.to_owned(),
        business: config.workspace.businesses.first().cloned(),
        store: store.then_some(Kind::Created),
        backfill: false,
    };
    let searched = runtime()?.block_on(async {
        match patiently(config, &Ask::Search(question.clone())).await? {
            Some(told) => done(told),
            None => search_alone(config, question).await,
        }
    })?;
    if json {
        return output::json(&searched.records);
    }
    let found: Vec<Map<String, Value>> = searched
        .records
        .iter()
        .filter_map(|record| serde_json::from_str(record.get()).ok())
        .collect();
    let shown = ["id", "name", "email", "mobile_country_code", "mobile_number", "created_at"];
    let rows = found
        .iter()
        .map(|record| shown.iter().map(|name| value_cell(record, name)).collect())
        .collect();
    output::table(&shown, rows, "no customer matches")?;
    if found.len() >= MOST_FOUND {
        output::aside(
            "a search returns no more than 25: there may be others, make the term longer",
        );
    }
    if let Some(found) = searched.found {
        output::text(&format!("{} stored as new, {} as changed\n", found.created, found.updated))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn search_alone(config: &Config, question: SearchAsk) -> anyhow::Result<Searched> {
    let mut alone = Alone::new(config)?;
    let store = match question.store {
        Some(_) => Some(Store::open(&config.store.path)?),
        None => None,
    };
    let searched = alone.search(store.as_ref(), question).await??;
    if let Some(store) = store {
        store.close().await?;
    }
    Ok(searched)
}

pub(super) fn custom_fields(
    config: &Config,
    refresh: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    if refresh {
        let changes = runtime()?.block_on(async {
            match patiently(config, &Ask::CustomFields).await? {
                Some(told) => done(told),
                None => refresh_alone(config).await,
            }
        })?;
        if !json {
            for FormChange { form_type, what } in &changes {
                output::text(&format!("{what}: {}\n", cell(form_type, 80)))?;
            }
        }
    }
    let forms = Reader::open(&config.store.path)?.forms()?;
    if json {
        return output::json(&forms);
    }
    let mut rows = Vec::new();
    for form in &forms {
        let fields: Vec<Value> = serde_json::from_str(form.fields.get())?;
        for field in &fields {
            rows.push(vec![
                cell(&form.form_type, 32),
                cell(&members(field), 160),
                form.changed_at.clone(),
            ]);
        }
    }
    let empty = "no custom fields are mirrored yet: the daemon reads them once a day, --refresh reads them now";
    output::table(&["form", "field", "changed"], rows, empty)
}

/// What a definition says; its member names are not part of the contract.
fn members(field: &Value) -> String {
    let Value::Object(members) = field else { return field.to_string() };
    let told: Vec<String> = members
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}: {text}"),
            other => format!("{name}: {other}"),
        })
        .collect();
    told.join(", ")
}

async fn refresh_alone(config: &Config) -> anyhow::Result<Vec<FormChange>> {
    let mut alone = Alone::new(config)?;
    let store = Store::open(&config.store.path)?;
    let at = jiff::Timestamp::now();
    let forms = alone.ask(async |client| client.form_types().await).await?;
    let mut changes = Vec::new();
    for form_type in &forms {
        let fields = alone.ask(async |client| client.custom_fields(form_type).await).await?;
        let definition = fields.join(",");
        changes.extend(store.store_form(form_type.clone(), format!("[{definition}]"), at).await?);
    }
    changes.extend(store.keep_forms(forms, at).await?);
    store.close().await?;
    Ok(changes)
}
