//! An imitation of S3 by moto, which tests share; each uses a bucket of its own.

use std::sync::OnceLock;

use super::{Server, folder_of, program};

const PLACES: [&str; 1] = [concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/target/python-tools/bin/moto_server"
)];

/// The server.
pub(crate) struct Moto {
    server: Server,
}

impl Moto {
    /// The server that tests share; `None` if the Python packages are left out.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Moto>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    fn start() -> Option<Self> {
        let program = program("python-tools", &PLACES)?.display().to_string();
        let server = Server::start(&folder_of(None), "TERM", None, |port| {
            let words = [program.as_str(), "-H", "127.0.0.1", "-p", &port.to_string()];
            words.map(str::to_owned).to_vec()
        });
        Some(Self { server })
    }

    /// The address of the service.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port
    }

    /// Makes a bucket.
    pub(crate) async fn bucket(&self, name: &str) {
        let request = self.request("PUT", name);
        assert!(request.await.0, "making the bucket {name}");
    }

    /// The names of the objects of a bucket, in order.
    pub(crate) async fn objects(&self, bucket: &str) -> Vec<String> {
        let (_, listing) = self.request("GET", bucket).await;
        let keys = listing.split("<Key>").skip(1);
        keys.map(|rest| rest.split("</Key>").next().unwrap().to_owned())
            .collect()
    }

    /// The lines of all objects of a bucket as JSON, object after object.
    pub(crate) async fn lines(&self, bucket: &str) -> Vec<serde_json::Value> {
        let mut lines = Vec::new();
        for name in self.objects(bucket).await {
            let (_, text) = self.request("GET", &format!("{bucket}/{name}")).await;
            lines.extend(text.lines().map(|line| serde_json::from_str(line).unwrap()));
        }
        lines
    }

    /// The bytes of an object.
    pub(crate) async fn object(&self, bucket: &str, name: &str) -> Vec<u8> {
        let answer = self.send("GET", &format!("{bucket}/{name}"), "").await;
        assert!(answer.status().is_success(), "{name}");
        answer.bytes().await.unwrap().to_vec()
    }

    /// Stores an object.
    pub(crate) async fn put(&self, bucket: &str, name: &str, text: &str) {
        let answer = self.send("PUT", &format!("{bucket}/{name}"), text).await;
        assert!(answer.status().is_success(), "{name}");
    }

    async fn request(&self, method: &str, path: &str) -> (bool, String) {
        let answer = self.send(method, path, "").await;
        (answer.status().is_success(), answer.text().await.unwrap())
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> reqwest::Response {
        let client = shopmirror::net::tls::client_builder()
            .tls_certs_only(std::iter::empty())
            .build()
            .unwrap();
        let request = client.request(method.parse().unwrap(), format!("{}/{path}", self.url()));
        // Its signature is not looked at, but without one it shows no object.
        let request = request.header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=reader/20260101/us-east-1/s3/aws4_request, \
             SignedHeaders=host, Signature=none",
        );
        request.body(body.to_owned()).send().await.unwrap()
    }
}
