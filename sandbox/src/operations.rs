//! Every operation under `/api`: one table that the router and the OpenAPI document are made from.
//!
//! Invariant: exactly what is listed here is served, so the document cannot say less or
//! more than the router.

use axum::Router;
use axum::http::Method;
use axum::routing::{MethodRouter, get, post};

use super::handle::Sandbox;
use super::{reads, write};

/// Where an operation takes its key from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPlace {
    /// `Authorization` or `X-API-Key`.
    Header,
    /// As `Header`, or the query parameter `token` of the form builders.
    HeaderOrToken,
    /// The last segment of the path.
    Path,
}

/// What an operation reads apart from its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Nothing,
    Limit,
    SearchTerm,
    FormType,
    Lead,
    SelfCheckin,
    Envelope,
    Webhook,
    Enquiry,
    EnquiryQuery,
}

/// What an operation answers if it does not refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    Connected,
    CustomFields,
    Records,
    Intake,
}

/// One method of one path.
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) key: KeyPlace,
    pub(super) sent: Sent,
    pub(super) answered: Answered,
    handler: fn() -> MethodRouter<Sandbox>,
}

const fn read(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    sent: Sent,
    answered: Answered,
    handler: fn() -> MethodRouter<Sandbox>,
) -> Operation {
    let key = KeyPlace::Header;
    Operation {
        method: Method::GET,
        path,
        id,
        summary,
        key,
        sent,
        answered,
        handler,
    }
}

const fn intake(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    key: KeyPlace,
    sent: Sent,
    handler: fn() -> MethodRouter<Sandbox>,
) -> Operation {
    let answered = Answered::Intake;
    Operation {
        method: Method::POST,
        path,
        id,
        summary,
        key,
        sent,
        answered,
        handler,
    }
}

const fn trigger(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    read(path, id, summary, Sent::Limit, Answered::Records, || {
        get(reads::trigger)
    })
}

/// The contract's endpoint summary, in its order.
pub(super) static OPERATIONS: [Operation; 17] = [
    read(
        "/integrations/ping",
        "ping",
        "Connection test",
        Sent::Nothing,
        Answered::Connected,
        || get(reads::ping),
    ),
    read(
        "/integrations/custom-fields",
        "customFields",
        "Custom field definitions",
        Sent::FormType,
        Answered::CustomFields,
        || get(reads::custom_fields),
    ),
    intake(
        "/integrations/leads",
        "createLead",
        "Create a lead, strict",
        KeyPlace::Header,
        Sent::Lead,
        || post(write::leads),
    ),
    intake(
        "/integrations/self-checkin",
        "createSelfCheckin",
        "Create a self check-in, strict",
        KeyPlace::Header,
        Sent::SelfCheckin,
        || post(write::self_checkin),
    ),
    intake(
        "/integrations/submit",
        "submit",
        "Create either by the envelope, lenient",
        KeyPlace::Header,
        Sent::Envelope,
        || post(write::submit),
    ),
    intake(
        "/integrations/ingest/{adapter}",
        "ingest",
        "Provider and generic receivers",
        KeyPlace::HeaderOrToken,
        Sent::Webhook,
        || post(write::ingest),
    ),
    intake(
        "/integrations/ingest/marketplace_b2b/{key}",
        "ingestMarketplace",
        "Marketplace push receiver",
        KeyPlace::Path,
        Sent::Enquiry,
        || post(write::marketplace),
    ),
    Operation {
        method: Method::GET,
        path: "/integrations/ingest/listing_directory/{key}",
        id: "ingestDirectoryQuery",
        summary: "Listing directory receiver, by query",
        key: KeyPlace::Path,
        sent: Sent::EnquiryQuery,
        answered: Answered::Intake,
        handler: || get(write::directory),
    },
    intake(
        "/integrations/ingest/listing_directory/{key}",
        "ingestDirectory",
        "Listing directory receiver",
        KeyPlace::Path,
        Sent::Enquiry,
        || post(write::directory),
    ),
    read(
        "/automation/ping",
        "automationPing",
        "Connection test of an automation key",
        Sent::Nothing,
        Answered::Connected,
        || get(reads::automation_ping),
    ),
    trigger("/automation/triggers/jobs", "recentJobs", "Recent repairs"),
    trigger(
        "/automation/triggers/customers",
        "recentCustomers",
        "Recent customers",
    ),
    trigger("/automation/triggers/leads", "recentLeads", "Recent leads"),
    trigger(
        "/automation/triggers/payments",
        "recentPayments",
        "Recent payments",
    ),
    trigger(
        "/automation/triggers/job-status-changes",
        "recentJobStatusChanges",
        "Recent repair status changes",
    ),
    trigger(
        "/automation/triggers/outsourced-jobs",
        "recentOutsourcedJobs",
        "Recent outsourced repairs",
    ),
    read(
        "/automation/search/customers",
        "searchCustomers",
        "Customer search",
        Sent::SearchTerm,
        Answered::Records,
        || get(reads::search),
    ),
];

/// All operations, without the gate.
pub(super) fn router() -> Router<Sandbox> {
    OPERATIONS.iter().fold(Router::new(), |router, operation| {
        router.route(operation.path, (operation.handler)())
    })
}
