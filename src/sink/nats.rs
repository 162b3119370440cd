//! JetStream of NATS: each change is published with its event id, and acknowledged once it is
//! stored.
//!
//! The stream drops a message whose event id it saw before, so that a repeat after a crash leaves no
//! trace in it. Changes of a batch are published one behind the other and acknowledged together.
//! A stream that exists is never changed.

use std::error::Error as _;
use std::future::IntoFuture as _;
use std::time::Duration;

use async_nats::jetstream::context::{
    CreateStreamErrorKind, GetStreamErrorKind, PublishError, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config as StreamConfig, StorageType};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, Event};
use async_trait::async_trait;
use jiff::Timestamp;
use shopmirror_core::record::{Change, Kind, Route};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::lookup::current;
use super::reason::{Secrets, decoded, secrets_of};
use super::{Reason, Sink, SinkError, Verdict};
use crate::config::{NatsSettings, is_loopback, nats_url};
use crate::net::problem::ConnectionProblem;
use crate::net::tls;
use crate::text::duration;

/// The most changes that wait for their acknowledgement together.
const BATCH: usize = 512;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const LOST: &str =
    "the connection was closed before the acknowledgement; start the server, or check its log";
/// How long a stream that this program creates remembers event ids.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// A stream that remembers them for less may keep a repeat after a restart of a machine.
const SHORT_WINDOW: Duration = Duration::from_secs(600);

/// One stream.
pub(super) struct NatsSink {
    settings: NatsSettings,
    secrets: Secrets,
    /// `None` before the first delivery, and after a failure.
    open: Option<Open>,
}

/// A connection.
struct Open {
    context: Context,
    /// Cancelled when the connection is lost: nothing sent over it is acknowledged any more.
    lost: CancellationToken,
}

impl NatsSink {
    pub(super) fn build(settings: &NatsSettings) -> Result<Self, SinkError> {
        let secrets = Secrets::new(secrets_of(&current(&settings.url, nats_url)?));
        Ok(Self {
            settings: settings.clone(),
            secrets,
            open: None,
        })
    }

    async fn publish(&self, context: &Context, changes: &[&Change]) -> Result<(), Verdict> {
        let mut acknowledgements = Vec::with_capacity(changes.len());
        for &change in changes {
            let subject = format!("shop.{}.{}", self.settings.workspace, change.event_type());
            let message = PublishMessage::build()
                .payload(change.data_json().into())
                .message_id(&change.event_id)
                .expected_stream(&self.settings.stream);
            match context.send_publish(subject, message).await {
                Ok(sent) => acknowledgements.push((change, sent.into_future())),
                Err(error) => return Err(self.verdict(&error, change)),
            }
        }
        for (change, acknowledgement) in acknowledgements {
            // A duplicate is stored already.
            if let Err(error) = acknowledgement.await {
                return Err(self.verdict(&error, change));
            }
        }
        Ok(())
    }

    fn verdict(&self, error: &PublishError, change: &Change) -> Verdict {
        let stream = &self.settings.stream;
        let bytes = change.data_json().len();
        let code = error
            .source()
            .and_then(|source| source.downcast_ref::<jetstream::Error>())
            .map(jetstream::Error::error_code);
        match (error.kind(), code) {
            (PublishErrorKind::MaxPayloadExceeded, _) => Verdict::refused(format!(
                "larger than the server takes, {bytes} bytes: raise max_payload in its configuration"
            )),
            (_, Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM)) => Verdict::refused(format!(
                "larger than the stream takes, {bytes} bytes: raise its max_msg_size"
            )),
            (PublishErrorKind::StreamNotFound, _) | (_, Some(ErrorCode::STREAM_NOT_MATCH)) => {
                Verdict::fault(format!(
                    "the stream {stream} does not take the subject shop.{}.{}: add it to the \
                     stream, or correct `stream`",
                    self.settings.workspace,
                    change.event_type()
                ))
            }
            _ => Verdict::fault_with(said(
                format!("publishing: {}; check the server's log", error.kind()),
                error,
            )),
        }
    }

    async fn connect(&self, mut url: Url) -> Result<Open, SinkError> {
        let lost = CancellationToken::new();
        let loses = lost.clone();
        let mut options = ConnectOptions::new()
            .name("shopmirror")
            .connection_timeout(CONNECT_TIMEOUT)
            // The engine connects again at its next attempt. Without a limit, a client that was
            // given up would reconnect for ever; 0 would be no limit.
            .max_reconnects(1)
            // The credentials go to the configured server, not to others that it names.
            .ignore_discovered_servers()
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    loses.cancel();
                }
                std::future::ready(())
            });
        if let Some(file) = &self.settings.credentials_file {
            options = options.credentials_file(file).await.map_err(|error| {
                SinkError::new(format!(
                    "reading the credentials in {}: {error}; name a file that this user may read",
                    file.display()
                ))
            })?;
        }
        let is_local = url.scheme() == "nats" && is_loopback(&url);
        if !is_local || self.settings.ca_file.is_some() {
            let tls = tls::client_config(self.settings.ca_file.as_deref())?;
            options = options.require_tls(true).tls_client_config(tls);
        }
        match (url.username(), url.password()) {
            ("", _) => {}
            (token, None) => options = options.token(decoded(token)),
            (user, Some(password)) => {
                options = options.user_and_password(decoded(user), decoded(password));
            }
        }
        // The login is in the options: in the address it would be sent with its `%` escapes.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let client = options.connect(url.as_str()).await.map_err(connect_error)?;
        let mut context = jetstream::new(client);
        // The limit of the attempt comes first.
        context.set_timeout(2 * self.settings.timeout);
        Ok(Open { context, lost })
    }

    /// Creates the stream if there is none of that name, and looks at what one is that is there.
    async fn create_stream(&self, context: &Context) -> Result<(), SinkError> {
        let creating = context.get_or_create_stream(StreamConfig {
            name: self.settings.stream.clone(),
            subjects: vec![format!("shop.{}.*.*", self.settings.workspace)],
            storage: StorageType::File,
            duplicate_window: DUPLICATE_WINDOW,
            ..StreamConfig::default()
        });
        let error = match creating.await {
            Ok(stream) => {
                let config = &stream.cached_info().config;
                self.check_stream(config)?;
                if let Some(window) = short_window(config) {
                    tracing::warn!(stream = %self.settings.stream, "{window}");
                }
                return Ok(());
            }
            Err(error) => error,
        };
        let advice = match error.kind() {
            CreateStreamErrorKind::JetStream(problem)
                if problem.error_code() == ErrorCode::STREAM_SUBJECT_OVERLAP =>
            {
                "name that stream in `stream`"
            }
            _ => "start nats-server with JetStream (-js), and let this user make the stream",
        };
        let stream = &self.settings.stream;
        let text = format!("making the stream {stream} failed; {advice}");
        Err(said(text, &error).into())
    }

    /// What keeps a stream that is there from storing changes for good.
    fn check_stream(&self, config: &StreamConfig) -> Result<(), SinkError> {
        let stream = &self.settings.stream;
        let problem = if config.sealed {
            "is sealed and takes nothing more: name another stream in `stream`".to_owned()
        } else if config.mirror.is_some() {
            "is a mirror of another stream and takes nothing itself: name that one in `stream`"
                .to_owned()
        } else if config.no_ack {
            format!(
                "acknowledges nothing, so nothing counts as delivered: run nats stream edit {stream} \
                 --ack"
            )
        } else if !self.takes_a_subject(&config.subjects) {
            let workspace = &self.settings.workspace;
            format!(
                "does not take the subject shop.{workspace}.>, only {}: add it to the stream, or \
                 correct `stream` or `workspace`",
                config.subjects.join(", ")
            )
        } else {
            return Ok(());
        };
        Err(SinkError::new(format!("the stream {stream} {problem}")))
    }

    /// Whether the stream takes the subject of any change.
    fn takes_a_subject(&self, filters: &[String]) -> bool {
        for route in Route::ALL {
            for kind in Kind::ALL {
                let subject = format!("shop.{}.{route}.{kind}", self.settings.workspace);
                if filters.iter().any(|filter| is_match(filter, &subject)) {
                    return true;
                }
            }
        }
        false
    }
}

/// Whether a subject fits a filter with the wildcards `*` and `>`.
fn is_match(filter: &str, subject: &str) -> bool {
    let mut words = subject.split('.');
    for part in filter.split('.') {
        let word = words.next();
        match part {
            ">" => return word.is_some(),
            "*" if word.is_some() => {}
            part if word == Some(part) => {}
            _ => return false,
        }
    }
    words.next().is_none()
}

/// That a stream soon forgets which changes it has, if it does.
fn short_window(config: &StreamConfig) -> Option<String> {
    let window = config.duplicate_window;
    (window < SHORT_WINDOW).then(|| {
        format!(
            "the stream remembers event ids for {} only, so a change that is sent again later is in \
             it twice: raise its duplicate window, as in nats stream edit {} --dupe-window 24h",
            duration::exact(window),
            config.name
        )
    })
}

#[async_trait]
impl Sink for NatsSink {
    fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn limit(&self) -> (Duration, &'static str) {
        // A server does not answer a request that the user has no right to.
        let advice = "check the server and the network, and that this user may publish to the \
             subjects, and look at the stream and make it ($JS.API.STREAM.INFO and CREATE)";
        (self.settings.timeout, advice)
    }

    async fn deliver(&mut self, changes: &[&Change], _now: Timestamp) -> Result<(), Verdict> {
        let open = match self.open.take() {
            // A message over a lost connection may be stored, but is acknowledged no more.
            Some(open) if !open.lost.is_cancelled() => open,
            _ => {
                let url = current(&self.settings.url, nats_url)?;
                self.secrets = Secrets::new(secrets_of(&url));
                let open = self.connect(url).await?;
                self.create_stream(&open.context).await?;
                open
            }
        };
        let publishing = self.publish(&open.context, changes);
        let published = match open.lost.run_until_cancelled(publishing).await {
            Some(published) => published,
            None => Err(Verdict::fault(LOST)),
        };
        if !matches!(published, Err(Verdict::Fault { .. })) {
            self.open = Some(open);
        }
        published
    }

    /// Connects and looks at the stream; creates nothing.
    async fn probe(&self) -> Result<String, SinkError> {
        let open = self.connect(current(&self.settings.url, nats_url)?).await?;
        let stream = &self.settings.stream;
        let error = match open.context.get_stream(stream).await {
            Ok(found) => {
                let config = &found.cached_info().config;
                self.check_stream(config)?;
                let window = short_window(config).map(|text| format!("; {text}"));
                let window = window.unwrap_or_default();
                return Ok(format!("connected; the stream {stream} is there{window}"));
            }
            Err(error) => error,
        };
        match error.kind() {
            GetStreamErrorKind::JetStream(problem)
                if problem.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(format!(
                    "connected; the stream {stream} will be made by the first delivery"
                ))
            }
            _ => {
                let text = format!(
                    "looking at the stream {stream} failed; start nats-server with JetStream (-js)"
                );
                Err(said(text, &error).into())
            }
        }
    }
}

/// A reason with the words of the server, which the library's error repeats.
fn said(text: String, error: &impl std::fmt::Display) -> Reason {
    Reason {
        text,
        quotation: Some(error.to_string()),
    }
}

/// Why a connection was not opened.
#[allow(clippy::needless_pass_by_value, reason = "`map_err` passes it so")]
fn connect_error(error: ConnectError) -> SinkError {
    if let Some(problem) = ConnectionProblem::find(&error) {
        return SinkError::new(format!("connecting to NATS: {problem}"));
    }
    let advice = match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            "; correct user and password in the url, or the file of `credentials_file`"
        }
        _ => "; start the server, or correct host and port in the url",
    };
    let mut detail = error.kind().to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        detail = inner.to_string();
        cause = inner.source();
    }
    let text = format!("connecting to NATS: {}{advice}", error.kind());
    said(text, &detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_fits_a_filter_word_by_word() {
        let subject = "shop.north.leads.created";
        for (filter, is_fit) in [
            ("shop.north.*.*", true),
            ("shop.>", true),
            (">", true),
            ("shop.north.leads.created", true),
            ("shop.*.leads.*", true),
            ("shop.north.*", false),
            ("shop.south.>", false),
            ("shop.north.leads.created.>", false),
            ("shop.north.*.*.*", false),
        ] {
            assert_eq!(is_match(filter, subject), is_fit, "{filter}");
        }
    }
}
