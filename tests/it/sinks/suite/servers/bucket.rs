//! A bucket of an imitation of S3, which is never restarted, because it forgets everything when it
//! ends. The same batch is the same object; another part of it is another object.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::*;
use crate::support::servers::moto::Moto;

struct Bucket {
    name: String,
    server: &'static Moto,
    dir: TempDir,
    relay: Relay,
}

pub(super) async fn start() -> Option<Box<dyn Destination>> {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let server = Moto::shared()?;
    let name = format!("suite{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    server.bucket(&name).await;
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, "AKIDCANARY\nSECRETCANARY\n").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let relay = Relay::to(server.port()).await;
    Some(Box::new(Bucket {
        name,
        server,
        dir,
        relay,
    }))
}

impl Destination for Bucket {
    fn relay(&self) -> Option<&Relay> {
        Some(&self.relay)
    }

    fn name(&self) -> &'static str {
        "s3"
    }

    fn keys(&self, timeout: &str) -> String {
        let (name, port) = (&self.name, self.relay.port());
        format!(
            "type = \"s3\"\nendpoint = \"http://127.0.0.1:{port}\"\nbucket = \"{name}\"\n\
             workspace = \"north\"\naccess_key_file = \"{}\"\ntimeout = \"{timeout}\"",
            self.dir.path().join("key").display()
        )
    }

    fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
        Box::pin(async move { Some(self.server.lines(&self.name).await) })
    }

    fn trespass(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            let names = self.server.objects(&self.name).await;
            let ours = |name: &String| {
                name.strip_prefix("shop/north/2026/01/02/")
                    .and_then(|rest| rest.strip_suffix(".ndjson"))
                    .is_some_and(|numbers| numbers.len() == 20 + 1 + 20 + 1 + 16)
            };
            names
                .into_iter()
                .find(|name| !ours(name))
                .map(|name| format!("the object {name}"))
        })
    }
}
