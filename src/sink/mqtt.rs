//! An MQTT broker: each change is published with quality of service 1 and acknowledged by the broker.
//!
//! MQTT knows no event id: a repeat after a crash is published again, with the same event id in its
//! text. With a topic for states, the broker also keeps the newest version of each record, and a
//! forgotten record is removed from there.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rumqttc::{
    AsyncClient, ClientError, ConnectionError, MqttOptions, PublishNoticeError, PublishOptions,
    QoS, StateError, TlsConfiguration, Transport,
};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::lookup::{addresses, current, first, local_addresses};
use super::reason::{self, Secrets};
use super::{Sink, SinkBuildError, Verdict};
use crate::config::{MqttSettings, SinkUrl, mqtt_url};
use crate::duration;
use crate::record::{Change, Kind};
use crate::tls;

/// The most changes that wait for their acknowledgement together.
const BATCH: usize = 100;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSED: &str = "the connection was closed; start the broker, or check its log";
const KEEP_ALIVE_S: u16 = 30;
/// All but letters, digits, `-` and `_` of a record's id is encoded as in a URL, so that it stays one word
/// of its topic.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');
/// The reason code of MQTT 5.
const PACKET_TOO_LARGE: u8 = 149;

/// One broker.
pub(super) struct MqttSink {
    url: SinkUrl,
    allow_plain: bool,
    secrets: Secrets,
    ca_file: Option<PathBuf>,
    topics: Topics,
    timeout: Duration,
    /// `None` before the first delivery, and after a failure.
    open: Option<Open>,
    /// How many changes are still to be published one by one: those of a batch during which the connection
    /// ended, because the broker does not say which of them ended it.
    one_by_one: usize,
}

/// Where changes are published.
struct Topics {
    workspace: String,
    /// Whether the newest version of each record is kept.
    keep_states: bool,
}

impl Topics {
    /// What is published for a change: topic, text and options.
    fn messages(&self, change: &Change) -> Vec<(String, String, PublishOptions)> {
        let plain = PublishOptions::new(QoS::AtLeastOnce);
        let topic = format!("shop/{}/{}", self.workspace, change.event_type().replace('.', "/"));
        let mut messages = vec![(topic, change.data_json(), plain)];
        // A test may show an older version, which must not replace the state of a record; a notice is
        // about no record.
        if !(change.is_test() || change.kind.is_notice())
            && self.keep_states
            && let Some(id) = &change.record_id
        {
            let kept = PublishOptions::new(QoS::AtLeastOnce).retained();
            // An empty text removes what the broker kept.
            let is_forgotten = change.kind == Kind::Forgotten;
            let text = if is_forgotten { String::new() } else { change.body.clone() };
            let id = utf8_percent_encode(id, ENCODED);
            let topic = format!("shop/{}/state/{}/{id}", self.workspace, change.route);
            messages.push((topic, text, kept));
        }
        messages
    }
}

/// A connection; its task ends when the connection fails.
struct Open {
    client: AsyncClient,
    task: JoinHandle<End>,
}

/// Why a connection ended.
#[derive(Debug)]
struct End {
    /// The reason, with what to do about it.
    reason: String,
    /// The broker takes no message of this size.
    too_large: bool,
}

impl Default for End {
    fn default() -> Self {
        Self { reason: CLOSED.to_owned(), too_large: false }
    }
}

impl Open {
    /// Why a change could not be given to the connection, which knows it a moment later if it ended.
    async fn end_behind(&mut self, error: &ClientError) -> End {
        match error {
            ClientError::RequestChannelDisconnected(_) => {
                (&mut self.task).await.unwrap_or_default()
            }
            other => End { reason: format!("publishing: {other}"), too_large: false },
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MqttSink {
    pub(super) fn build(name: &str, settings: &MqttSettings) -> Result<Self, SinkBuildError> {
        let url = first(name, &settings.url, |url| mqtt_url(url, settings.allow_plain))?;
        Ok(Self {
            url: settings.url.clone(),
            allow_plain: settings.allow_plain,
            secrets: Secrets::of_url(&url),
            ca_file: settings.ca_file.clone(),
            topics: Topics {
                workspace: settings.workspace.clone(),
                keep_states: settings.keep_states,
            },
            timeout: settings.timeout,
            open: None,
            one_by_one: 0,
        })
    }

    async fn publish(&mut self, changes: &[Change]) -> Vec<Verdict> {
        if self.open.as_ref().is_none_or(|open| open.task.is_finished()) {
            let url = match self.address().await {
                Ok(url) => url,
                Err(reason) => return vec![Verdict::fault(reason); changes.len()],
            };
            self.secrets = Secrets::of_url(&url);
            match self.connect(&url).await {
                Ok(open) => self.open = Some(open),
                Err(reason) => return vec![Verdict::fault(reason); changes.len()],
            }
        }
        let Some(open) = &mut self.open else { unreachable!("it was opened above") };
        let mut waits = FuturesUnordered::new();
        // How many answers each change still waits for.
        let mut left = vec![0_usize; changes.len()];
        let mut begun = 0;
        let mut lost = None;
        'all: for (index, change) in changes.iter().enumerate() {
            begun = index + 1;
            for (topic, text, options) in self.topics.messages(change) {
                left[index] += 1;
                let publishing = open.client.publish_tracked(topic, text, options);
                tokio::select! {
                    biased;
                    ended = &mut open.task => {
                        lost = Some(ended.unwrap_or_default());
                        break 'all;
                    }
                    notice = publishing => {
                        let notice = match notice {
                            Ok(notice) => notice,
                            Err(error) => {
                                lost = Some(open.end_behind(&error).await);
                                break 'all;
                            }
                        };
                        waits.push(async move { (index, notice.wait_completion_async().await.err()) });
                    }
                }
            }
        }
        let mut failures: Vec<Option<PublishNoticeError>> = vec![None; changes.len()];
        while lost.is_none() && !waits.is_empty() {
            tokio::select! {
                biased;
                Some((index, failure)) = waits.next() => {
                    left[index] -= 1;
                    failures[index] = failures[index].take().or(failure);
                }
                ended = &mut open.task => lost = Some(ended.unwrap_or_default()),
            }
        }
        if lost.is_none() && failures.contains(&Some(PublishNoticeError::Recv)) {
            // The connection has ended as well, and knows why.
            lost = Some((&mut open.task).await.unwrap_or_default());
        }
        let lost = lost.unwrap_or_default();
        // The broker does not say which change it was, unless there is only one.
        if let (true, [change]) = (lost.too_large, changes) {
            return vec![Verdict::refused(reason::too_large(change, "the broker", TOO_LARGE))];
        }
        let verdict = |(index, failure): (usize, Option<PublishNoticeError>)| match failure {
            None if left[index] == 0 && index < begun => Verdict::Done,
            Some(PublishNoticeError::V5PubAck(reason)) => Verdict::fault(format!(
                "the broker refused the change ({reason:?}): let this user publish to the topic"
            )),
            Some(PublishNoticeError::RetainNotSupported) => {
                Verdict::fault("the broker keeps no retained messages: remove `keep_states`")
            }
            _ => Verdict::fault(&lost.reason),
        };
        failures.into_iter().enumerate().map(verdict).collect()
    }

    /// The broker's address at this attempt.
    async fn address(&self) -> Result<Url, String> {
        let allow_plain = self.allow_plain;
        current(&self.url, move |url| mqtt_url(url, allow_plain)).await
    }

    async fn connect(&self, url: &Url) -> Result<Open, String> {
        let encrypted = url.scheme() == "mqtts";
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = url.port().unwrap_or(if encrypted { 8883 } else { 1883 });
        // Two connections with one name would end each other.
        let id = format!("shopmirror-{:016x}", fastrand::u64(..));
        let mut options = MqttOptions::new(id, (host.clone(), port));
        options.set_socket_connector(move |_, _| {
            let host = host.clone();
            async move {
                // What is not encrypted stays in the local network.
                let found = match encrypted {
                    true => addresses(&host, port).await?,
                    false => local_addresses(&host, port).await?,
                };
                let stream = TcpStream::connect(&*found).await?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
        });
        options.set_keep_alive(KEEP_ALIVE_S).set_connect_timeout(CONNECT_TIMEOUT.min(self.timeout));
        if !url.username().is_empty() {
            let part = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
            options.set_credentials(part(url.username()), part(url.password().unwrap_or_default()));
        }
        if encrypted {
            let tls = tls::client_config(self.ca_file.as_deref())?;
            let tls = TlsConfiguration::Rustls(Arc::new(tls));
            options.set_transport(Transport::tls_with_config(tls));
        }
        let (client, mut connection) = AsyncClient::builder(options).capacity(2 * BATCH).build();
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = connection.poll().await {
                    return End { reason: described(&error), too_large: is_too_large(&error) };
                }
            }
        });
        Ok(Open { client, task })
    }
}

#[async_trait]
impl Sink for MqttSink {
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
        let mut verdicts = vec![Verdict::NotTried; changes.len()];
        let step = if self.one_by_one > 0 { 1 } else { changes.len().max(1) };
        for (given, said) in changes.chunks(step).zip(verdicts.chunks_mut(step)) {
            let publishing = tokio::time::timeout(self.timeout, self.publish(given));
            let told = match stop.run_until_cancelled(publishing).await {
                None => vec![Verdict::CutShort; given.len()],
                Some(Ok(told)) => told,
                Some(Err(_)) => {
                    let reason = format!(
                        "no acknowledgement within {}: check the broker and the network",
                        duration::text(self.timeout)
                    );
                    vec![Verdict::fault(reason); given.len()]
                }
            };
            said.clone_from_slice(&told);
            if told.iter().any(|verdict| *verdict != Verdict::Done) {
                self.open = None;
                self.one_by_one = self.one_by_one.max(given.len() - 1);
                break;
            }
            self.one_by_one = self.one_by_one.saturating_sub(given.len());
        }
        verdicts
    }

    /// Connects and publishes nothing.
    async fn probe(&self) -> Result<String, String> {
        let url = self.address().await?;
        let result = tokio::time::timeout(self.timeout, async {
            let mut open = self.connect(&url).await?;
            // A subscription to a topic of our own is answered once the broker has let us in.
            let asking = open.client.subscribe_tracked("shopmirror/probe", QoS::AtMostOnce);
            let answered = async { asking.await.ok()?.wait_async().await.ok() };
            tokio::select! {
                Some(_) = answered => Ok("connected; nothing was published".to_owned()),
                ended = &mut open.task => Err(ended.unwrap_or_default().reason),
            }
        });
        match result.await {
            Ok(result) => result.map_err(|reason| Secrets::of_url(&url).reason(&reason)),
            Err(_) => Err("no answer in time; check the broker and the network".to_owned()),
        }
    }
}

/// What to do about a message that is too large.
const TOO_LARGE: &str = "raise max_packet_size or message_size_limit in its configuration";

/// Whether a message was larger than the broker takes: it said so before, or it answered so, with a
/// code that the library knows only as a wrong one.
fn is_too_large(error: &ConnectionError) -> bool {
    let ConnectionError::MqttState(state) = error else { return false };
    match state {
        StateError::OutgoingPacketTooLarge { .. } => true,
        StateError::Deserialization(rumqttc::mqttbytes::Error::InvalidConnectReturnCode(code)) => {
            *code == PACKET_TOO_LARGE
        }
        // The library names it in two ways, by where it notices it.
        StateError::Deserialization(rumqttc::mqttbytes::Error::OutgoingPacketTooLarge {
            ..
        }) => true,
        _ => false,
    }
}

/// Why the connection failed, with what to do about it.
fn described(error: &ConnectionError) -> String {
    if is_too_large(error) {
        return format!("larger than the broker takes: {TOO_LARGE}");
    }
    if let Some(problem) = tls::problem_of(error) {
        return format!("connecting to the MQTT broker: {problem}");
    }
    let advice = match error {
        ConnectionError::ConnectionRefused(_) => {
            "; correct user and password in the url, or let this user connect"
        }
        ConnectionError::Tls(_) => "; check the broker's certificate and `ca_file`",
        _ => {
            "; start the broker or see its log, or correct host, port, and mqtts or mqtt in the url"
        }
    };
    format!("connecting to the MQTT broker: {error}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_larger_than_the_broker_takes_is_told_with_its_remedy() {
        let (pkt_size, max) = (30_000, 20_000);
        for state in [
            StateError::OutgoingPacketTooLarge { pkt_size, max },
            StateError::Deserialization(rumqttc::mqttbytes::Error::OutgoingPacketTooLarge {
                pkt_size,
                max,
            }),
        ] {
            let error = ConnectionError::MqttState(state);
            assert!(is_too_large(&error), "{error}");
            assert!(described(&error).contains("raise max_packet_size"), "{}", described(&error));
        }
    }
}
