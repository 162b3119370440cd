//! The steps from a submission to its outcome, in the contract's order.

mod record;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::envelope::Refusal;
use super::intake::field::Destination;
use super::intake::form::{Duplicates, Form};
use super::intake::ledger::{Delivery, Made, Remembered};
use super::intake::{How, Submission, check};
use super::route::Route;
use super::state::Inner;

/// The most leads, and the most self check-ins, that the workspace accepts.
const MAX_HELD: usize = 1_000_000;

/// The outcome of a submission that is not refused: the intake envelope.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) status: StatusCode,
    name: &'static str,
    request_id: String,
    made: Option<Made>,
    data: Value,
    /// The business that the submission was resolved to.
    pub(super) business: i64,
}

impl Outcome {
    /// The envelope's JSON.
    pub(super) fn envelope(&self) -> Value {
        json!({"status": self.name, "request_id": self.request_id, "data": self.data})
    }
}

impl Inner {
    /// Submits and logs the delivery.
    pub(super) fn submit(
        &mut self,
        mut submission: Submission,
        request_id: &str,
    ) -> Result<Outcome, Refusal> {
        let named = self.named_business(&submission);
        submission.business = named.unwrap_or(submission.business);
        let business = submission.business;
        let outcome = self.decide(&submission, request_id);
        let outcome = outcome.map_err(|refusal| refusal.for_business(business));
        let route = submission.route.clone();
        let integration = submission.integration;
        self.log_delivery(request_id, integration, route, Some(submission), &outcome);
        outcome
    }

    /// Logs a delivery and its outcome.
    pub(super) fn log_delivery(
        &mut self,
        request_id: &str,
        integration: u32,
        route: String,
        submission: Option<Submission>,
        outcome: &Result<Outcome, Refusal>,
    ) {
        let key = self
            .keys
            .of_integration(integration)
            .map(|key| key.name.clone());
        let (http, name, made) = told(outcome);
        let delivery = Delivery {
            id: 0,
            request_id: request_id.to_owned(),
            at: self.now(),
            key: key.unwrap_or_default(),
            route,
            http,
            outcome: name,
            made,
            submission,
        };
        self.intake.ledger.log(delivery);
        self.changed();
    }

    /// Submits a logged delivery once more; `destination` pins one that could not be decided.
    ///
    /// `None` when there is no such delivery, or nothing of it that could be submitted.
    pub(super) fn retry(
        &mut self,
        id: u64,
        destination: Option<Destination>,
    ) -> Option<Result<Outcome, Refusal>> {
        let delivery = self.intake.ledger.delivery_mut(id)?;
        let mut submission = delivery.submission.clone()?;
        let request_id = delivery.request_id.clone();
        let parked = delivery.is_parked();
        submission.destination = destination.or(submission.destination);
        let outcome = if parked {
            // Its own idempotency key would make the retry a replay of the parked answer.
            let key = submission.idempotency_key.take();
            let outcome = self.decide(&submission, &request_id);
            submission.idempotency_key = key;
            if let Ok(outcome) = &outcome {
                self.remember(&submission, &request_id, outcome.made, outcome.business);
            }
            outcome
        } else {
            self.decide(&submission, &request_id)
        };
        let (http, name, made) = told(&outcome);
        let delivery = self.intake.ledger.delivery_mut(id)?;
        delivery.submission = Some(submission);
        (delivery.http, delivery.outcome, delivery.made) = (http, name, made.or(delivery.made));
        self.changed();
        Some(outcome)
    }

    /// Submits what is parked for a form once more; what is still not decided stays parked.
    pub(super) fn retry_parked(&mut self, integration: u32, form_id: &str) {
        let mut parked = Vec::new();
        for delivery in self.intake.ledger.deliveries() {
            let is_of_form = delivery.submission.as_ref().is_some_and(|sent| {
                sent.integration == integration && sent.form_id.as_deref() == Some(form_id)
            });
            if is_of_form && delivery.is_parked() {
                parked.push(delivery.id);
            }
        }
        for id in parked {
            // Its outcome stands in the log of deliveries.
            let _ = self.retry(id, None);
        }
    }

    /// The original answer, when the key was seen before; whatever the body says now.
    pub(super) fn replay(
        &mut self,
        integration: u32,
        key: Option<&str>,
        business: i64,
    ) -> Option<Outcome> {
        let known = self.intake.ledger.remembered(integration, key?)?;
        let (request_id, made) = (known.request_id.clone(), known.made);
        let business = known.business.unwrap_or(business);
        let data = made.map_or(Value::Null, |made| self.shown(made));
        let (status, name) = (StatusCode::OK, "duplicate");
        Some(Outcome {
            status,
            name,
            request_id,
            made,
            data,
            business,
        })
    }

    fn decide(&mut self, sent: &Submission, request_id: &str) -> Result<Outcome, Refusal> {
        let replayed = self.replay(
            sent.integration,
            sent.idempotency_key.as_deref(),
            sent.business,
        );
        if let Some(outcome) = replayed {
            return Ok(outcome);
        }
        let held = self
            .records
            .len(Route::Leads)
            .max(self.intake.checkins.len());
        if held >= MAX_HELD {
            return Err(Refusal::scripted(StatusCode::LOCKED, None));
        }
        let form = self.intake.form(sent).cloned();
        let Some(destination) = destination(sent, form.as_ref()) else {
            self.check_addressing(sent)?;
            return Ok(self.park(sent, request_id));
        };
        let form = form.filter(|form| form.active);
        let data = match &form {
            Some(form) => form.apply(sent.data.clone()),
            None => sent.data.clone(),
        };
        let clean = {
            let defined = self.intake.defined(destination);
            match sent.how {
                How::Strict => check::strict(destination, data, &defined),
                _ => check::lenient(destination, data, &defined),
            }
        };
        let mut clean = clean.map_err(Refusal::invalid)?;
        let business = self.business(sent, &mut clean)?;
        let policy = form.map_or(Duplicates::Default, |form| form.duplicates);
        let found = self.same_as(destination, &clean, policy);
        let (status, name, made) = match found {
            Some(made) => (StatusCode::OK, "duplicate", made),
            None => {
                let source = sent.how == How::Fixed;
                let made = self.make(destination, business, &clean, source);
                (StatusCode::CREATED, "completed", made)
            }
        };
        self.remember(sent, request_id, Some(made), business);
        let request_id = request_id.to_owned();
        let data = self.shown(made);
        Ok(Outcome {
            status,
            name,
            request_id,
            made: Some(made),
            data,
            business,
        })
    }

    fn park(&mut self, sent: &Submission, request_id: &str) -> Outcome {
        self.remember(sent, request_id, None, sent.business);
        Outcome {
            status: StatusCode::ACCEPTED,
            name: "received",
            request_id: request_id.to_owned(),
            made: None,
            data: Value::Null,
            business: sent.business,
        }
    }

    fn remember(&mut self, sent: &Submission, request_id: &str, made: Option<Made>, business: i64) {
        if let Some(key) = &sent.idempotency_key {
            let what = Remembered {
                request_id: request_id.to_owned(),
                made,
                business: Some(business),
            };
            self.intake.ledger.remember(sent.integration, key, what);
        }
    }

    /// The known business that the data names, after the form's map if there is one.
    fn named_business(&self, sent: &Submission) -> Option<i64> {
        let form = self.intake.form(sent).filter(|form| form.active);
        let named = match form {
            Some(form) => check::named_business(sent.how, &form.apply(sent.data.clone())),
            // Before its form is mapped, a form builder's names mean nothing.
            None if sent.how == How::Mapped => None,
            None => check::named_business(sent.how, &sent.data),
        };
        named.filter(|id| self.businesses.contains(id))
    }

    /// Refuses a strict submission that would be parked with a wrong form id or business.
    fn check_addressing(&self, sent: &Submission) -> Result<(), Refusal> {
        let Some(destination) = sent.destination.filter(|_| sent.how == How::Strict) else {
            return Ok(());
        };
        let problems = check::addressing(destination, &sent.data);
        if !problems.is_empty() {
            return Err(Refusal::invalid(problems));
        }
        match check::named_business(sent.how, &sent.data) {
            Some(id) if !self.businesses.contains(&id) => Err(Refusal::unknown_business()),
            _ => Ok(()),
        }
    }

    /// The business: the body's, else the header's, else the default one.
    fn business(&self, sent: &Submission, clean: &mut check::Clean) -> Result<i64, Refusal> {
        let Some(id) = clean.values.remove("business_id") else {
            return Ok(sent.business);
        };
        match id.as_i64().filter(|id| self.businesses.contains(id)) {
            Some(id) => Ok(id),
            None if sent.how == How::Strict => Err(Refusal::unknown_business()),
            None => {
                clean.custom.insert("business_id".to_owned(), id);
                Ok(sent.business)
            }
        }
    }
}

/// What the record becomes; `None`: the submission is parked.
fn destination(sent: &Submission, form: Option<&Form>) -> Option<Destination> {
    let configured = form.is_some_and(|form| form.active);
    let unmapped = form.is_none_or(|form| form.map.is_none());
    match sent.how {
        How::Fixed => sent.destination,
        How::Strict => {
            let waits = sent.provider.maps_forms() && sent.form_id.is_some();
            sent.destination
                .filter(|_| !waits || (configured && !unmapped))
        }
        How::Mapped if !configured || unmapped => None,
        How::Lenient if form.is_some() && sent.form_id.is_some() && !configured => None,
        How::Lenient if sent.provider.maps_forms() && sent.form_id.is_some() && unmapped => None,
        How::Mapped | How::Lenient => {
            let of_form = form
                .filter(|form| form.active)
                .and_then(|form| form.destination);
            sent.destination.or(of_form)
        }
    }
}

fn told(outcome: &Result<Outcome, Refusal>) -> (u16, String, Option<Made>) {
    match outcome {
        Ok(outcome) => (
            outcome.status.as_u16(),
            outcome.name.to_owned(),
            outcome.made,
        ),
        Err(refusal) => (refusal.status.as_u16(), refusal.code.to_owned(), None),
    }
}
