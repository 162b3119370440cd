//! An MQTT broker: each change is published with quality of service 1 and acknowledged by the
//! broker.
//!
//! MQTT knows no event id: a repeat after a crash is published again, with the same event id in its
//! text. With a topic for states, the broker also keeps the newest version of each record, and a
//! forgotten record is removed from there.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rumqttc::{
    AsyncClient, ConnAckProperties, ConnectReturnCode, ConnectionError, Event, Incoming,
    MqttOptions, PublishNoticeError, PublishOptions, QoS, StateError, TlsConfiguration, Transport,
};
use shopmirror_core::record::{Change, Kind};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use url::Url;

use super::lookup::current;
use super::reason::{Secrets, decoded, secrets_of};
use super::{Sink, SinkError, Verdict};
use crate::config::{MqttSettings, mqtt_url};
use crate::net::lookup::addresses;
use crate::net::problem::ConnectionProblem;
use crate::net::tls;

/// The most changes that wait for their acknowledgement together.
const BATCH: usize = 100;
const KEEP_ALIVE_S: u16 = 30;
/// All but letters, digits, `-` and `_` of a record's id is encoded as in a URL, so that it stays
/// one word of its topic.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');
/// The reason code of MQTT 5.
const PACKET_TOO_LARGE: u8 = 149;
const NO_MQTT_5: &str = "the broker took the connection and did not answer as MQTT 5 does: correct the \
    port, and mqtts or mqtt in the url; a broker for MQTT 3.1.1 only cannot be used, so take one for \
    MQTT 5, as mosquitto 1.6 and later";
const NO_RETAINED: &str = "the broker keeps no retained messages: remove `keep_states`";

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

/// What is published at once.
struct Message {
    topic: String,
    text: String,
    options: PublishOptions,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MqttSink {
    pub(super) fn build(settings: &MqttSettings) -> Result<Self, SinkError> {
        let secrets = Secrets::new(secrets_of(&address(settings)?));
        Ok(Self {
            settings: settings.clone(),
            secrets,
            open: None,
        })
    }

    /// The messages for a change: its event, and the state of its record.
    fn messages(&self, change: &Change) -> Vec<Message> {
        let workspace = &self.settings.workspace;
        let event = Message {
            topic: format!("shop/{workspace}/{}", change.event_type().replace('.', "/")),
            text: change.data_json(),
            options: PublishOptions::new(QoS::AtLeastOnce),
        };
        let Some(id) = &change.record_id else {
            return vec![event];
        };
        // A test may show an older version, which must not replace the state of a record; a notice
        // is about no record.
        if !self.settings.keep_states || change.is_test() || change.kind.is_notice() {
            return vec![event];
        }
        // An empty text removes the state that the broker keeps.
        let text = if change.kind == Kind::Forgotten {
            String::new()
        } else {
            change.body.clone()
        };
        let id = utf8_percent_encode(id, ENCODED);
        let state = Message {
            topic: format!("shop/{workspace}/state/{}/{id}", change.route),
            text,
            options: PublishOptions::new(QoS::AtLeastOnce).retained(),
        };
        vec![event, state]
    }

    /// Publishes, and waits for each acknowledgement; without end if the connection has ended,
    /// whose task knows why.
    async fn publish(&self, client: &AsyncClient, changes: &[&Change]) -> Result<(), Verdict> {
        let mut notices = Vec::new();
        for change in changes {
            for message in self.messages(change) {
                let Message {
                    topic,
                    text,
                    options,
                } = message;
                match client.publish_tracked(topic, text, options).await {
                    Ok(notice) => notices.push(notice),
                    Err(_) => std::future::pending().await,
                }
            }
        }
        for notice in notices {
            match notice.wait_completion_async().await {
                Ok(_) => {}
                Err(PublishNoticeError::V5PubAck(reason)) => {
                    return Err(Verdict::fault(format!(
                        "the broker refused the change ({reason:?}): let this user publish to the \
                         topic"
                    )));
                }
                Err(PublishNoticeError::RetainNotSupported) => {
                    return Err(Verdict::fault(NO_RETAINED));
                }
                Err(_) => std::future::pending().await,
            }
        }
        Ok(())
    }

    /// Connects, and asks the broker what it is.
    async fn connect(&self, url: &Url) -> Result<Open, Verdict> {
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
        let is_reached = Arc::new(AtomicBool::new(false));
        let reached = Arc::clone(&is_reached);
        options.set_socket_connector(move |_, _| {
            let host = host.clone();
            let reached = Arc::clone(&reached);
            async move {
                // Without TLS, a connection stays in the local network.
                let found = addresses(&host, port, !encrypted).await?;
                let stream = TcpStream::connect(&*found).await?;
                stream.set_nodelay(true)?;
                reached.store(true, Ordering::Relaxed);
                Ok(stream)
            }
        });
        options.set_keep_alive(KEEP_ALIVE_S);
        if !url.username().is_empty() {
            let password = decoded(url.password().unwrap_or_default());
            options.set_credentials(decoded(url.username()), password);
        }
        if encrypted {
            let tls =
                tls::client_config(self.settings.ca_file.as_deref()).map_err(SinkError::from)?;
            let tls = TlsConfiguration::Rustls(Arc::new(tls));
            options.set_transport(Transport::tls_with_config(tls));
        }
        let (client, mut connection) = AsyncClient::builder(options).capacity(2 * BATCH).build();
        let (accepts, accepted) = oneshot::channel();
        let mut accepts = Some(accepts);
        let task = tokio::spawn(async move {
            loop {
                match connection.poll().await {
                    Ok(Event::Incoming(Incoming::ConnAck(answer))) => {
                        if let Some(accepts) = accepts.take() {
                            // The receiver is gone if the attempt was given up.
                            let _ = accepts.send(answer.properties);
                        }
                    }
                    Ok(_) => {}
                    Err(error) => return error,
                }
            }
        });
        let mut open = Open { client, task };
        tokio::select! {
            Ok(properties) = accepted => self.check_broker(properties.as_ref())?,
            ended = &mut open.task => {
                return Err(not_connected(ended, is_reached.load(Ordering::Relaxed)));
            }
        }
        Ok(open)
    }

    /// What keeps this broker from storing changes for good.
    fn check_broker(&self, broker: Option<&ConnAckProperties>) -> Result<(), SinkError> {
        let Some(broker) = broker else {
            return Ok(());
        };
        if broker.max_qos == Some(0) {
            return Err(SinkError::new(
                "the broker takes quality of service 0 only, so it acknowledges nothing: allow 1 in \
                 its configuration (mosquitto: max_qos)",
            ));
        }
        if self.settings.keep_states && broker.retain_available == Some(0) {
            return Err(SinkError::new(NO_RETAINED));
        }
        Ok(())
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
                let url = address(&self.settings)?;
                self.secrets = Secrets::new(secrets_of(&url));
                self.connect(&url).await?
            }
        };
        let published = tokio::select! {
            biased;
            published = self.publish(&open.client, changes) => published,
            ended = &mut open.task => Err(connection_ended(ended, changes.len() > 1)),
        };
        if published.is_ok() {
            self.open = Some(open);
        }
        published
    }

    /// Connects and publishes nothing.
    async fn probe(&self) -> Result<String, SinkError> {
        let mut open = self
            .connect(&address(&self.settings)?)
            .await
            .map_err(Verdict::into_error)?;
        // A subscription to a topic of our own is answered once the broker has let us in.
        let subscribing = open
            .client
            .subscribe_tracked("shopmirror/probe", QoS::AtMostOnce);
        let answered = async { subscribing.await.ok()?.wait_async().await.ok() };
        tokio::select! {
            Some(_) = answered => Ok("connected; nothing was published".to_owned()),
            ended = &mut open.task => Err(connection_ended(ended, false).into_error()),
        }
    }
}

fn address(settings: &MqttSettings) -> Result<Url, SinkError> {
    current(&settings.url, |url| mqtt_url(url, settings.allow_plain))
}

/// Whether a message was larger than the broker takes: the broker announced its limit, or answered
/// with a code that the library knows only as a wrong one.
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

/// Why a broker did not accept the connection; `is_reached` if it has taken it.
fn not_connected(ended: Result<ConnectionError, JoinError>, is_reached: bool) -> Verdict {
    let speaks_other = match &ended {
        Ok(ConnectionError::ConnectionRefused(code)) => matches!(
            code,
            ConnectReturnCode::UnsupportedProtocolVersion
                | ConnectReturnCode::RefusedProtocolVersion
        ),
        // It closed the connection, or sent what is not MQTT 5.
        Ok(
            ConnectionError::MqttState(
                StateError::Deserialization(_)
                | StateError::ProtocolViolation(_)
                | StateError::ConnectionAborted,
            )
            | ConnectionError::NotConnAck(_),
        ) => is_reached,
        Ok(ConnectionError::Io(error) | ConnectionError::MqttState(StateError::Io(error))) => {
            is_reached && error.kind() == io::ErrorKind::UnexpectedEof
        }
        Ok(_) | Err(_) => false,
    };
    if speaks_other {
        return Verdict::fault(format!("connecting to the MQTT broker: {NO_MQTT_5}"));
    }
    connection_ended(ended, false)
}

/// Why the connection ended, with what to do about it. A broker that refuses one of several changes
/// may only end the connection: then each half of them is to be tried alone.
fn connection_ended(ended: Result<ConnectionError, JoinError>, has_several: bool) -> Verdict {
    let error = match ended {
        Ok(error) => error,
        Err(error) => return Verdict::fault(error),
    };
    if is_too_large(&error) {
        return Verdict::refused(
            "larger than the broker takes: raise max_packet_size or message_size_limit in its \
             configuration",
        );
    }
    if has_several && matches!(error, ConnectionError::MqttState(_)) {
        return Verdict::refused(error);
    }
    if let Some(problem) = ConnectionProblem::find(&error) {
        return Verdict::fault(format!("connecting to the MQTT broker: {problem}"));
    }
    let advice = match error {
        ConnectionError::ConnectionRefused(_) => {
            "correct user and password in the url, or let this user connect"
        }
        _ => "start the broker or see its log, or correct host, port, and mqtts or mqtt in the url",
    };
    Verdict::fault(format!("connecting to the MQTT broker: {error}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_larger_than_the_broker_takes_is_refused_with_its_remedy() {
        let (pkt_size, max) = (30_000, 20_000);
        for state in [
            StateError::OutgoingPacketTooLarge { pkt_size, max },
            StateError::Deserialization(rumqttc::mqttbytes::Error::OutgoingPacketTooLarge {
                pkt_size,
                max,
            }),
        ] {
            let verdict = connection_ended(Ok(ConnectionError::MqttState(state)), false);
            let Verdict::Refused { reason, .. } = &verdict else {
                panic!("{verdict:?}")
            };
            assert!(reason.text.contains("raise max_packet_size"), "{reason:?}");
        }
    }
}
