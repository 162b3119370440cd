//! JetStream of NATS: each change is published with its event id, and acknowledged once it is stored.
//!
//! The stream drops what has an event id that it saw before, so that a repeat after a crash leaves no
//! trace in it. Changes of a batch are published one behind the other and acknowledged together. A
//! stream that exists is never changed.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::context::{CreateStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config as StreamConfig, StorageType};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{ConnectErrorKind, ConnectOptions, Event};
use async_trait::async_trait;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::reason::{self, Secrets};
use super::{Sink, SinkBuildError, Verdict, lookup};
use crate::config::{NatsSettings, SinkUrl, is_loopback, nats_url};
use crate::duration;
use crate::record::Change;
use crate::tls;

/// The most changes that wait for their acknowledgement together.
const BATCH: usize = 512;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const LOST: &str =
    "the connection was closed before the acknowledgement; start the server, or check its log";
/// The usual port.
const PORT: u16 = 4222;
const NO_ANSWER: &str = "no answer in time: check the network, and that this user may look at the \
     stream and make it ($JS.API.STREAM.INFO and CREATE)";
/// How long a stream that is made here remembers event ids.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// One stream.
pub(super) struct NatsSink {
    url: SinkUrl,
    secrets: Secrets,
    credentials_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    stream: String,
    workspace: String,
    timeout: Duration,
    /// `None` before the first delivery, and after a failure.
    open: Option<Open>,
}

/// A connection.
struct Open {
    context: Context,
    /// Cancelled when the connection is lost: what was sent over it is acknowledged no more.
    lost: CancellationToken,
}

impl NatsSink {
    pub(super) fn build(name: &str, settings: &NatsSettings) -> Result<Self, SinkBuildError> {
        let url = lookup::first(name, &settings.url, nats_url)?;
        Ok(Self {
            url: settings.url.clone(),
            secrets: Secrets::of_url(&url),
            credentials_file: settings.credentials_file.clone(),
            ca_file: settings.ca_file.clone(),
            stream: settings.stream.clone(),
            workspace: settings.workspace.clone(),
            timeout: settings.timeout,
            open: None,
        })
    }

    async fn publish(&mut self, changes: &[Change]) -> Vec<Verdict> {
        // What is sent over a lost connection may be stored, but is acknowledged no more.
        if self.open.as_ref().is_none_or(|open| open.lost.is_cancelled()) {
            let url = match self.address().await {
                Ok(url) => url,
                Err(reason) => return vec![Verdict::fault(reason); changes.len()],
            };
            self.secrets = Secrets::of_url(&url);
            let connecting = tokio::time::timeout(self.timeout, self.connect(url));
            match connecting.await.unwrap_or_else(|_| Err(NO_ANSWER.to_owned())) {
                Ok(open) => self.open = Some(open),
                Err(reason) => return vec![Verdict::fault(reason); changes.len()],
            }
        }
        let Some(Open { context, lost }) = &self.open else { unreachable!("it was opened above") };
        let mut verdicts = vec![Verdict::NotTried; changes.len()];
        let mut sent = Vec::with_capacity(changes.len());
        for (index, change) in changes.iter().enumerate() {
            let message = PublishMessage::build()
                .payload(change.data_json().into())
                .message_id(&change.event_id)
                .expected_stream(&self.stream);
            match context.send_publish(self.subject(change), message).await {
                Ok(acknowledged) => sent.push((index, acknowledged)),
                Err(error) => {
                    verdicts[index] = self.verdict(&error, change);
                    if matches!(verdicts[index], Verdict::Fault { .. }) {
                        break;
                    }
                }
            }
        }
        let sent = sent.into_iter().map(|(index, acknowledged)| async move {
            (index, lost.run_until_cancelled(acknowledged.into_future()).await)
        });
        for (index, outcome) in futures_util::future::join_all(sent).await {
            verdicts[index] = match outcome {
                // A duplicate is stored already.
                Some(Ok(_)) => Verdict::Done,
                Some(Err(error)) => self.verdict(&error, &changes[index]),
                None => Verdict::fault(LOST),
            };
        }
        verdicts
    }

    /// What a change is published as, for example `shop.north.leads.created`.
    fn subject(&self, change: &Change) -> String {
        format!("shop.{}.{}", self.workspace, change.event_type())
    }

    /// The subjects of all changes.
    fn subjects(&self) -> String {
        format!("shop.{}.*.*", self.workspace)
    }

    fn verdict(&self, error: &jetstream::context::PublishError, change: &Change) -> Verdict {
        let subject = || self.subject(change);
        let code = error
            .source()
            .and_then(|source| source.downcast_ref::<jetstream::Error>())
            .map(jetstream::Error::error_code);
        match (error.kind(), code) {
            (PublishErrorKind::MaxPayloadExceeded, _) => Verdict::refused(reason::too_large(
                change,
                "the server",
                "raise max_payload in its configuration",
            )),
            (_, Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM)) => {
                Verdict::refused(reason::too_large(change, "the stream", "raise its max_msg_size"))
            }
            (PublishErrorKind::StreamNotFound, _) => Verdict::fault(format!(
                "no stream takes the subject {}: add it to the stream {}",
                subject(),
                self.stream
            )),
            (_, Some(ErrorCode::STREAM_NOT_MATCH)) => Verdict::fault(format!(
                "another stream than {} takes the subject {}: correct `stream`",
                self.stream,
                subject()
            )),
            (PublishErrorKind::TimedOut, _) => Verdict::fault(format!(
                "no acknowledgement within {}: check the server, and that this user may publish \
                 to {}",
                duration::text(self.timeout),
                subject()
            )),
            _ => Verdict::fault(format!("publishing: {error}; check the server's log")),
        }
    }

    /// The server's address at this attempt.
    async fn address(&self) -> Result<Url, String> {
        lookup::current(&self.url, nats_url).await
    }

    /// A client, and what is cancelled when it loses its connection.
    async fn client(
        &self,
        mut url: Url,
    ) -> Result<(async_nats::Client, CancellationToken), String> {
        let lost = CancellationToken::new();
        let told = lost.clone();
        let mut options = ConnectOptions::new()
            .name("shopmirror")
            .connection_timeout(CONNECT_TIMEOUT.min(self.timeout))
            // The engine connects anew when it tries again. Without a limit, a client that was given
            // up would go on by itself for ever; 0 would be no limit.
            .max_reconnects(1)
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    told.cancel();
                }
                std::future::ready(())
            });
        if let Some(file) = &self.credentials_file {
            options = options.credentials_file(file).await.map_err(|error| {
                format!(
                    "reading the credentials in {}: {error}; name a file that this user may read",
                    file.display()
                )
            })?;
        }
        let is_local = url.scheme() == "nats" && is_loopback(&url);
        if !is_local || self.ca_file.is_some() {
            let tls = tls::client_config(self.ca_file.as_deref())?;
            options = options.require_tls(true).tls_client_config(tls);
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        lookup::known(host, url.port().unwrap_or(PORT)).await.map_err(|error| {
            let problem = tls::problem_of(&error).unwrap_or_else(|| error.to_string());
            format!("connecting to NATS: {problem}; correct the host in the url")
        })?;
        let part = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        match (url.username(), url.password()) {
            ("", _) => {}
            (token, None) => options = options.token(part(token)),
            (user, Some(password)) => {
                options = options.user_and_password(part(user), part(password));
            }
        }
        // They are given above: in the address they would be sent as they are encoded.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        let client = options.connect(url.as_str()).await.map_err(|error| {
            let advice = match error.kind() {
                ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                    "; correct user and password in the url, or the file of `credentials_file`"
                }
                ConnectErrorKind::Dns => "; correct the host in the url",
                _ => "; start the server, or correct host and port in the url",
            };
            if let Some(problem) = tls::problem_of(&error) {
                return format!("connecting to NATS: {problem}");
            }
            let causes = std::iter::successors(error.source(), |&cause| cause.source());
            let problem = causes.map(ToString::to_string).last();
            let detail = problem.unwrap_or_else(|| error.kind().to_string());
            format!("connecting to NATS: {detail}{advice}")
        })?;
        Ok((client, lost))
    }

    /// Connects, and makes the stream if there is none of that name.
    async fn connect(&self, url: Url) -> Result<Open, String> {
        let (client, lost) = self.client(url).await?;
        let mut context = jetstream::new(client);
        context.set_timeout(self.timeout);
        if self.look(&context).await? {
            return Ok(Open { context, lost });
        }
        let made = context.create_stream(StreamConfig {
            name: self.stream.clone(),
            subjects: vec![self.subjects()],
            storage: StorageType::File,
            duplicate_window: DUPLICATE_WINDOW,
            ..StreamConfig::default()
        });
        match made.await {
            Ok(_) => Ok(Open { context, lost }),
            Err(error) if error.kind() == CreateStreamErrorKind::TimedOut => {
                Err(NO_ANSWER.to_owned())
            }
            Err(error) => {
                let advice = match error.kind() {
                    CreateStreamErrorKind::JetStream(problem)
                        if problem.error_code() == ErrorCode::STREAM_SUBJECT_OVERLAP =>
                    {
                        "; name that stream in `stream`"
                    }
                    _ => "; make it by hand, or let this user make streams",
                };
                Err(format!("making the stream {}: {error}{advice}", self.stream))
            }
        }
    }

    /// Whether the stream is there; an error if it does not take our subjects.
    async fn look(&self, context: &Context) -> Result<bool, String> {
        use async_nats::jetstream::context::GetStreamErrorKind;
        let stream = match context.get_stream(&self.stream).await {
            Ok(stream) => stream,
            Err(error) => {
                return match error.kind() {
                    GetStreamErrorKind::JetStream(problem)
                        if problem.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                    {
                        Ok(false)
                    }
                    _ => Err(format!(
                        "looking at the stream {}: {error}; start nats-server with JetStream (-js), \
                         and let this user look at it",
                        self.stream
                    )),
                };
            }
        };
        let wanted = self.subjects().replace('*', "x");
        let subjects = &stream.cached_info().config.subjects;
        if subjects.iter().any(|pattern| takes(pattern, &wanted)) {
            return Ok(true);
        }
        Err(format!(
            "the stream {} is of others: it takes {}, not {}; name another `stream`, or add the \
             subject to it",
            self.stream,
            subjects.join(", "),
            self.subjects()
        ))
    }
}

#[async_trait]
impl Sink for NatsSink {
    fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn batch(&self) -> usize {
        BATCH
    }

    async fn deliver(
        &mut self,
        changes: &[Change],
        _now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let verdicts = stop.run_until_cancelled(self.publish(changes)).await;
        let verdicts = verdicts.unwrap_or_else(|| vec![Verdict::CutShort; changes.len()]);
        let failed =
            |verdict: &Verdict| matches!(verdict, Verdict::Fault { .. } | Verdict::CutShort);
        if verdicts.iter().any(failed) {
            self.open = None;
        }
        verdicts
    }

    /// Connects and looks at the stream; makes nothing.
    async fn probe(&self) -> Result<String, String> {
        let url = self.address().await?;
        let secrets = Secrets::of_url(&url);
        let looking = async {
            let mut context = jetstream::new(self.client(url).await?.0);
            context.set_timeout(self.timeout);
            self.look(&context).await
        };
        match tokio::time::timeout(self.timeout, looking).await {
            Ok(Ok(true)) => Ok(format!("connected; the stream {} is there", self.stream)),
            Ok(Ok(false)) => Ok(format!(
                "connected; the stream {} will be made by the first delivery",
                self.stream
            )),
            Ok(Err(reason)) => Err(secrets.reason(&reason)),
            Err(_) => Err(NO_ANSWER.to_owned()),
        }
    }
}

/// Whether a pattern of subjects takes a subject.
fn takes(pattern: &str, subject: &str) -> bool {
    let mut words = subject.split('.');
    for part in pattern.split('.') {
        match (part, words.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (part, Some(word)) if part == word => {}
            _ => return false,
        }
    }
    words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_takes_what_its_words_and_wildcards_say() {
        for (pattern, taken) in [
            ("shop.north.leads.created", true),
            ("shop.*.*.*", true),
            ("shop.>", true),
            (">", true),
            ("shop.*.*", false),
            ("shop.*.*.*.*", false),
            ("shop.north.leads.created.>", false),
            ("shop.south.>", false),
        ] {
            assert_eq!(takes(pattern, "shop.north.leads.created"), taken, "{pattern}");
        }
    }
}
