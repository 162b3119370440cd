//! Why a sink cannot be built, in words that hold neither an address nor a secret.

/// Why a sink cannot be built from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum SinkBuildError {
    /// The webhook's address cannot be used; the text never holds the address.
    #[error("sink {sink}: the url {problem}")]
    Url {
        /// The sink's name.
        sink: String,
        /// What is wrong and what to write instead.
        problem: &'static str,
    },
    /// A signing secret cannot be used; the text never holds the secret.
    #[error("sink {sink}: signing secret {number} {problem}")]
    Secret {
        /// The sink's name.
        sink: String,
        /// Which secret, from 1.
        number: usize,
        /// What is wrong and what to write instead.
        problem: &'static str,
    },
    /// A fixed header cannot be sent; the text never holds its value.
    #[error("sink {sink}: the header {header:?} {problem}")]
    Header {
        /// The sink's name.
        sink: String,
        /// The header's name.
        header: String,
        /// What is wrong and what to write instead.
        problem: &'static str,
    },
    /// The HTTP client cannot be made, usually because no certificate authorities are installed.
    #[error("sink {sink}: making the HTTPS client: {problem}; install the package ca-certificates")]
    Client {
        /// The sink's name.
        sink: String,
        /// What the TLS library said.
        problem: String,
    },
    /// A server's address or settings cannot be used; the text never holds a secret.
    #[error("sink {sink}: {problem}")]
    Server {
        /// The sink's name.
        sink: String,
        /// What is wrong and what to write instead.
        problem: String,
    },
    /// The program was built without this type of sink.
    #[error(
        "sink {sink}: this program was built without sinks of type {kind}: use the packaged program, or build it with --features {kind}"
    )]
    LeftOut {
        /// The sink's name.
        sink: String,
        /// Its type, which is also the name of the feature.
        kind: &'static str,
    },
    /// The command does not begin with the absolute path of a program.
    #[error("sink {sink}: the command must begin with the absolute path of a program")]
    Program {
        /// The sink's name.
        sink: String,
    },
}
