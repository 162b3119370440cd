//! Why a sink cannot be built, in words that hold neither an address nor a secret.

/// Why a sink cannot be built from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum SinkBuildError {
    /// An address or another setting cannot be used; the text never holds a secret.
    #[error("sink {sink}: {problem}")]
    Server {
        /// The sink's name.
        sink: String,
        /// What is wrong and what to write instead.
        problem: String,
    },
    /// The program was built without this type of sink.
    #[error(
        "sink {sink}: this program was built without sinks of its type: use the packaged program, or build it with --all-features"
    )]
    LeftOut {
        /// The sink's name.
        sink: String,
    },
}
