//! The conversation with a mail server, through `lettre`, and what its responses mean.
//!
//! Each step is sent alone, so that a refusal names its step, and a mail reaches the
//! recipients that the server accepts. A mail that the server refuses (5xx) blames the change.
//! Everything else blames the server or the configuration: the connection, TLS, the login, the
//! sender, the recipients if all are refused, and every 4xx.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use lettre::address::Envelope;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use secrecy::ExposeSecret;

use crate::config::{EmailSettings, MailTls};
use crate::net::problem::ConnectionProblem;
use crate::net::tls::file_verifier;
use crate::sink::reason::{self, Secrets};
use crate::sink::{Preview, Reason, SinkError, Verdict};

/// How long the goodbye may take; the mails have been accepted by then.
const QUIT_TIME: Duration = Duration::from_secs(2);

/// Where the mails of one sink go.
pub(super) struct Server {
    sink: String,
    host: String,
    port: u16,
    tls: Tls,
    /// What verifies the server instead of the library.
    verifier: Option<Arc<dyn ServerCertVerifier>>,
    login: Option<Credentials>,
    secrets: Secrets,
    timeout: Duration,
    /// Who sends the mails and who gets them.
    envelope: Envelope,
    /// The refused recipients that were logged last, with the reasons.
    logged: Vec<Reason>,
}

impl Server {
    pub(super) fn build(
        sink: &str,
        settings: &EmailSettings,
        envelope: Envelope,
    ) -> Result<Self, SinkError> {
        let mut login = None;
        let mut secrets = Secrets::new([]);
        if let Some((user, password)) = &settings.login {
            let password = password.expose_secret();
            login = Some(Credentials::new(user.clone(), password.to_owned()));
            secrets = Secrets::new(reason::login(user, password));
        }
        let mut verifier = None;
        if let Some(path) = &settings.ca_file
            && settings.tls != MailTls::Off
        {
            verifier = Some(file_verifier(path)?);
        }
        Ok(Self {
            sink: sink.to_owned(),
            host: settings.server.clone(),
            port: settings.port,
            tls: tls(settings)?,
            verifier,
            secrets,
            login,
            timeout: settings.timeout,
            envelope,
            logged: Vec::new(),
        })
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn limit(&self) -> (Duration, &'static str) {
        (
            self.timeout,
            "check the mail server, port and tls, or raise `timeout`",
        )
    }

    /// Sends one mail.
    pub(super) async fn send(&mut self, mail: &[u8]) -> Result<(), Verdict> {
        let (mut connection, mut refused) = self.begin().await?;
        if refused.len() == self.envelope.to().len() {
            return Err(Verdict::fault_with(refused.swap_remove(0)));
        }
        if let Err(error) = connection.command(Data).await {
            return Err(self.judge(&error));
        }
        if let Err(error) = connection.message(mail).await {
            return Err(self.judge(&error));
        }
        quit(connection).await;
        if refused != self.logged {
            for reason in &refused {
                let reason = self.secrets.reason(&reason.text);
                tracing::warn!(
                    sink = self.sink,
                    reason,
                    "mails reach only the other recipients"
                );
            }
            self.logged = refused;
        }
        Ok(())
    }

    /// What the response to a mail means: a permanent one refuses the mail.
    fn judge(&self, error: &Error) -> Verdict {
        let text = self.explain("the mail", "its text says why", error);
        if error.is_permanent() {
            Verdict::refused_with(text)
        } else {
            Verdict::fault_with(text)
        }
    }

    /// What [`Self::send`] would do.
    pub(super) fn preview(&self, mail: &[u8]) -> Preview {
        let to: Vec<String> = self.envelope.to().iter().map(ToString::to_string).collect();
        let how = format!(
            "mail to {} by {} port {}:",
            to.join(", "),
            self.host,
            self.port
        );
        Preview::new(how, String::from_utf8_lossy(mail))
    }

    /// Begins a mail, and sends none.
    pub(super) async fn probe(&self) -> Result<String, SinkError> {
        let (connection, refused) = self.begin().await?;
        quit(connection).await;
        if !refused.is_empty() {
            return Err(together(refused).into());
        }
        let login = if self.login.is_some() {
            "the login, "
        } else {
            ""
        };
        Ok(format!(
            "the mail server accepts {login}the sender and every recipient; no mail was sent"
        ))
    }

    /// Connects, and names the sender and the recipients to the server; returns why it refuses
    /// recipients.
    async fn begin(&self) -> Result<(AsyncSmtpConnection, Vec<Reason>), SinkError> {
        let mut connection = self.connect().await?;
        let sender = MailFrom::new(self.envelope.from().cloned(), Vec::new());
        if let Err(error) = connection.command(sender).await {
            let remedy = "correct from, or let the server allow it";
            return Err(self.failed("the sender", remedy, &error));
        }
        let mut refused = Vec::new();
        for recipient in self.envelope.to() {
            let command = Rcpt::new(recipient.clone(), Vec::new());
            let Err(error) = connection.command(command).await else {
                continue;
            };
            let step = format!("the recipient {recipient}");
            if !error.is_permanent() {
                return Err(self.failed(&step, "correct to", &error));
            }
            refused.push(self.explain(&step, "correct to", &error));
        }
        Ok((connection, refused))
    }

    /// A connection that is protected and logged in as configured.
    async fn connect(&self) -> Result<AsyncSmtpConnection, SinkError> {
        let name = rustix::system::uname();
        let name = name.nodename().to_string_lossy();
        let hello = ClientId::Domain(name.into_owned());
        let tls_from_start = match &self.tls {
            Tls::Wrapper(parameters) => Some(parameters.clone()),
            _ => None,
        };
        let place = (self.host.as_str(), self.port);
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(place, None, &hello, tls_from_start, None)
                .await
                .map_err(|error| self.failed("the connection", "ask who runs it", &error))?;
        if let Tls::Required(parameters) = &self.tls
            && let Err(error) = connection.starttls(parameters.clone(), &hello).await
        {
            return Err(self.starttls_failed(&error));
        }
        if let Err(error) = self.verify(&connection) {
            let problem = match ConnectionProblem::find(&error) {
                Some(problem) => problem.to_string(),
                None => error.to_string(),
            };
            let text = format!("no connection to the mail server: {problem}");
            return Err(SinkError::new(text));
        }
        if let Some(login) = &self.login
            && let Err(error) = connection.auth(DEFAULT_MECHANISMS, login).await
        {
            return Err(self.failed("the login", "correct login_file", &error));
        }
        Ok(connection)
    }

    /// Verifies the server by `ca_file`, if it is set; the library has done so by the authorities of
    /// this machine.
    fn verify(&self, connection: &AsyncSmtpConnection) -> Result<(), rustls::Error> {
        let Some(verifier) = &self.verifier else {
            return Ok(());
        };
        let no_certificate = |_| rustls::Error::NoCertificatesPresented;
        let chain = connection.certificate_chain().map_err(no_certificate)?;
        let chain: Vec<CertificateDer<'_>> = chain.into_iter().map(CertificateDer::from).collect();
        let Some((certificate, intermediates)) = chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        let name = ServerName::try_from(self.host.as_str())
            .map_err(|_| rustls::Error::General("server is no host name".to_owned()))?;
        let now = UnixTime::now();
        verifier.verify_server_cert(certificate, intermediates, &name, &[], now)?;
        Ok(())
    }

    fn starttls_failed(&self, error: &Error) -> SinkError {
        // The library itself refuses to continue without the server's offer.
        if error.is_client() && ConnectionProblem::find(error).is_none() {
            return SinkError::new(
                "the mail server offers no STARTTLS: set tls to \"tls\", or check the port",
            );
        }
        self.failed("STARTTLS", "check port and tls", error)
    }

    fn failed(&self, step: &str, remedy: &str, error: &Error) -> SinkError {
        self.explain(step, remedy, error).into()
    }

    /// Why a step failed.
    fn explain(&self, step: &str, remedy: &str, error: &Error) -> Reason {
        let text = match error.source() {
            Some(cause) => cause.to_string(),
            None => error.to_string(),
        };
        let Some(code) = error.status() else {
            let port = self.port;
            let text = match ConnectionProblem::find(error) {
                Some(problem) => format!("no connection to the mail server: {problem}"),
                None if error.is_response() => {
                    "the mail server closed the connection, or its answer is not SMTP; check port \
                     and tls"
                        .to_owned()
                }
                None => format!("{step} failed at the mail server, port {port}: {text}"),
            };
            return text.into();
        };
        let quotation = reason::response(text.as_bytes(), true);
        if error.is_transient() {
            let text = format!("the mail server postponed {step} ({code}); it is tried again");
            return Reason { text, quotation };
        }
        // Servers that demand a login refuse different steps.
        let login = if self.login.is_none() {
            ", or set login_file"
        } else {
            ""
        };
        let text = format!("the mail server refused {step} ({code}): {remedy}{login}");
        Reason { text, quotation }
    }
}

/// Several reasons as one.
fn together(reasons: Vec<Reason>) -> Reason {
    let mut texts = Vec::new();
    let mut quotations = Vec::new();
    for reason in reasons {
        texts.push(reason.text);
        quotations.extend(reason.quotation);
    }
    Reason {
        text: texts.join("; "),
        quotation: Some(quotations.join("; ")).filter(|quotation| !quotation.is_empty()),
    }
}

/// Says goodbye.
async fn quit(mut connection: AsyncSmtpConnection) {
    let _ = tokio::time::timeout(QUIT_TIME, connection.quit()).await;
}

fn tls(settings: &EmailSettings) -> Result<Tls, SinkError> {
    match settings.tls {
        MailTls::Off => Ok(Tls::None),
        MailTls::StartTls => Ok(Tls::Required(tls_parameters(settings)?)),
        MailTls::Tls => Ok(Tls::Wrapper(tls_parameters(settings)?)),
    }
}

fn tls_parameters(settings: &EmailSettings) -> Result<TlsParameters, SinkError> {
    let mut parameters = TlsParameters::builder(settings.server.clone());
    if settings.ca_file.is_some() {
        // The library takes no verifier, so `Server::verify` does it before anything is sent.
        parameters = parameters
            .certificate_store(CertificateStore::None)
            .dangerous_accept_invalid_certs(true)
            .dangerous_accept_invalid_hostnames(true);
    }
    parameters.build().map_err(|error| {
        SinkError::new(format!(
            "preparing TLS: {error}; install the package ca-certificates"
        ))
    })
}
