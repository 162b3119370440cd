//! An MQTT broker: each change is published with quality of service 1 and acknowledged by the
//! broker.
//!
//! MQTT knows no event id: a repeat after a crash is published again, with the same event id in its
//! text. With a topic for states, the broker also keeps the newest version of each record, and a
//! forgotten record is removed from there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rumqttc::{
    AsyncClient, ConnectionError, MqttOptions, PublishNoticeError, PublishOptions, QoS, StateError,
    TlsConfiguration, Transport,
};
use shopmirror_core::record::{Change, Kind};
use tokio::net::TcpStream;
use tokio::task::{JoinError, JoinHandle};
use url::Url;

use super::lookup::{addresses, current};
use super::reason::{Secrets, secrets_of};
use super::{Sink, Verdict};
use crate::config::{MqttSettings, mqtt_url};
use crate::net::tls;

/// The most changes that wait for their acknowledgement together.
const BATCH: usize = 100;
const KEEP_ALIVE_S: u16 = 30;
/// All but letters, digits, `-` and `_` of a record's id is encoded as in a URL, so that it stays
/// one word of its topic.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');
/// The reason code of MQTT 5.
const PACKET_TOO_LARGE: u8 = 149;

/// One broker.
pub(super) struct MqttSink {
    settings: MqttSettings,
    secrets: Secrets,
    /// `None` before the first delivery, and after a failure.
    open: Option<Open>,
}

/// A connection; its task ends when the connection fails.
struct Open {
    client: AsyncClient,
    task: JoinHandle<ConnectionError>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MqttSink {
    pub(super) fn build(settings: &MqttSettings) -> Result<Self, String> {
        let secrets = Secrets::new(secrets_of(&address(settings)?));
        Ok(Self {
            settings: settings.clone(),
            secrets,
            open: None,
        })
    }

    /// What is published for a change: topic, text and options.
    fn messages(&self, change: &Change) -> Vec<(String, String, PublishOptions)> {
        let workspace = &self.settings.workspace;
        let plain = PublishOptions::new(QoS::AtLeastOnce);
        let topic = format!("shop/{workspace}/{}", change.event_type().replace('.', "/"));
        let mut messages = vec![(topic, change.data_json(), plain)];
        // A test may show an older version, which must not replace the state of a record; a notice
        // is about no record.
        if !(change.is_test() || change.kind.is_notice())
            && self.settings.keep_states
            && let Some(id) = &change.record_id
        {
            let kept = PublishOptions::new(QoS::AtLeastOnce).retained();
            // An empty text removes what the broker kept.
            let is_forgotten = change.kind == Kind::Forgotten;
            let text = if is_forgotten {
                String::new()
            } else {
                change.body.clone()
            };
            let id = utf8_percent_encode(id, ENCODED);
            messages.push((
                format!("shop/{workspace}/state/{}/{id}", change.route),
                text,
                kept,
            ));
        }
        messages
    }

    /// Publishes, and waits for each acknowledgement; without end if the connection has ended,
    /// whose task knows why.
    async fn publish(&self, client: &AsyncClient, changes: &[&Change]) -> Result<(), Verdict> {
        let mut notices = Vec::new();
        for (topic, text, options) in changes.iter().flat_map(|change| self.messages(change)) {
            match client.publish_tracked(topic, text, options).await {
                Ok(notice) => notices.push(notice),
                Err(_) => std::future::pending().await,
            }
        }
        for notice in notices {
            match notice.wait_completion_async().await {
                Ok(_) => {}
                Err(PublishNoticeError::V5PubAck(reason)) => {
                    return Err(Verdict::fault(format!(
                        "the broker refused the change ({reason:?}): let this user publish to the topic"
                    )));
                }
                Err(PublishNoticeError::RetainNotSupported) => {
                    let text = "the broker keeps no retained messages: remove `keep_states`";
                    return Err(Verdict::fault(text));
                }
                Err(_) => std::future::pending().await,
            }
        }
        Ok(())
    }

    async fn connect(&self, url: &Url) -> Result<Open, String> {
        let encrypted = url.scheme() == "mqtts";
        let host = url
            .host_str()
            .unwrap_or_default()
            .trim_matches(['[', ']'])
            .to_owned();
        let port = url.port().unwrap_or(if encrypted { 8883 } else { 1883 });
        // Two connections with one name would end each other.
        let id = format!("shopmirror-{:016x}", fastrand::u64(..));
        let mut options = MqttOptions::new(id, (host.clone(), port));
        options.set_socket_connector(move |_, _| {
            let host = host.clone();
            async move {
                // What is not encrypted stays in the local network.
                let found = addresses(&host, port, !encrypted).await?;
                let stream = TcpStream::connect(&*found).await?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
        });
        options.set_keep_alive(KEEP_ALIVE_S);
        if !url.username().is_empty() {
            let part = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
            options.set_credentials(
                part(url.username()),
                part(url.password().unwrap_or_default()),
            );
        }
        if encrypted {
            let tls = tls::client_config(self.settings.ca_file.as_deref())?;
            let tls = TlsConfiguration::Rustls(Arc::new(tls));
            options.set_transport(Transport::tls_with_config(tls));
        }
        let (client, mut connection) = AsyncClient::builder(options).capacity(2 * BATCH).build();
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = connection.poll().await {
                    return error;
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

    fn limit(&self) -> (Duration, &'static str) {
        (
            self.settings.timeout,
            "check the broker and the network, or raise `timeout`",
        )
    }

    async fn deliver(&mut self, changes: &[&Change], _now: Timestamp) -> Result<(), Verdict> {
        let mut open = match self.open.take() {
            Some(open) if !open.task.is_finished() => open,
            _ => {
                let url = address(&self.settings).map_err(Verdict::fault)?;
                self.secrets = Secrets::new(secrets_of(&url));
                self.connect(&url).await.map_err(Verdict::fault)?
            }
        };
        let published = tokio::select! {
            biased;
            published = self.publish(&open.client, changes) => published,
            ended = &mut open.task => Err(why(ended, changes.len() > 1)),
        };
        if published.is_ok() {
            self.open = Some(open);
        }
        published
    }

    /// Connects and publishes nothing.
    async fn probe(&self) -> Result<String, String> {
        let mut open = self.connect(&address(&self.settings)?).await?;
        // A subscription to a topic of our own is answered once the broker has let us in.
        let asking = open
            .client
            .subscribe_tracked("shopmirror/probe", QoS::AtMostOnce);
        let answered = async { asking.await.ok()?.wait_async().await.ok() };
        tokio::select! {
            Some(_) = answered => Ok("connected; nothing was published".to_owned()),
            ended = &mut open.task => Err(why(ended, false).into_reason()),
        }
    }
}

fn address(settings: &MqttSettings) -> Result<Url, String> {
    current(&settings.url, |url| mqtt_url(url, settings.allow_plain))
}

/// Whether a message was larger than the broker takes: it said so before, or it answered so, with a
/// code that the library knows only as a wrong one.
fn is_too_large(error: &ConnectionError) -> bool {
    use rumqttc::mqttbytes::Error;
    let ConnectionError::MqttState(state) = error else {
        return false;
    };
    match state {
        StateError::OutgoingPacketTooLarge { .. } => true,
        StateError::Deserialization(Error::InvalidConnectReturnCode(code)) => {
            *code == PACKET_TOO_LARGE
        }
        // The library names it in two ways, by where it notices it.
        StateError::Deserialization(Error::OutgoingPacketTooLarge { .. }) => true,
        _ => false,
    }
}

/// Why the connection ended, with what to do about it. A broker that refuses one of several changes
/// may only end the connection: then each half of them is to be tried by itself.
fn why(ended: Result<ConnectionError, JoinError>, of_several: bool) -> Verdict {
    let error = match ended {
        Ok(error) => error,
        Err(error) => return Verdict::fault(error),
    };
    if is_too_large(&error) {
        return Verdict::refused(
            "larger than the broker takes: raise max_packet_size or message_size_limit in its configuration",
        );
    }
    if of_several && matches!(error, ConnectionError::MqttState(_)) {
        return Verdict::refused(error);
    }
    Verdict::fault(match (tls::problem_of(&error), &error) {
        (Some(problem), _) => format!("connecting to the MQTT broker: {problem}"),
        (None, ConnectionError::ConnectionRefused(_)) => format!(
            "connecting to the MQTT broker: {error}; correct user and password in the url, or let this user connect"
        ),
        _ => format!(
            "connecting to the MQTT broker: {error}; start the broker or see its log, or correct host, port, and mqtts or mqtt in the url"
        ),
    })
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
            let verdict = why(Ok(ConnectionError::MqttState(state)), false);
            let Verdict::Refused { reason, .. } = &verdict else {
                panic!("{verdict:?}")
            };
            assert!(reason.contains("raise max_packet_size"), "{reason}");
        }
    }
}
