//! Destinations that are servers: a mail server, PostgreSQL, JetStream, an MQTT broker, S3.

#[cfg(feature = "mqtt")]
mod broker;
#[cfg(feature = "s3")]
mod bucket;
#[cfg(feature = "postgres")]
mod database;
#[cfg(feature = "email")]
mod mail;
#[cfg(feature = "nats")]
mod stream;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::Destination;
use super::judge::{Arrival, LINE};
use crate::support::relay::{Line, Relay};

/// Every destination of this build whose server is not left out. With `own`, those whose server
/// keeps what it has acknowledged through a restart get one of their own, to be restarted.
pub(super) async fn all(own: bool) -> Vec<Box<dyn Destination>> {
    #[allow(unused_mut, reason = "some sinks are left out of some builds")]
    let mut all: Vec<Box<dyn Destination>> = Vec::new();
    #[cfg(feature = "email")]
    all.extend(mail::start().await);
    #[cfg(feature = "postgres")]
    all.extend(database::start(own).await);
    #[cfg(feature = "nats")]
    all.extend(stream::start(own).await);
    #[cfg(feature = "mqtt")]
    all.extend(broker::start().await);
    #[cfg(feature = "s3")]
    all.extend(bucket::start().await);
    let _ = own;
    all
}
