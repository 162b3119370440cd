//! PostgreSQL: one server for all tests, a role and a schema for each.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use super::{Server, certificate, folder_of, program};
use crate::support::LIMIT_S;

/// Members of the role `locked` need a password.
const ACCESS: &str =
    "host all +locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";

/// A server and what it runs from.
pub(crate) struct Postgres {
    server: Option<Server>,
    program: PathBuf,
    data: PathBuf,
    user: Option<(u32, u32)>,
    port: u16,
}

impl Postgres {
    /// The server that tests share; `None` if PostgreSQL is left out.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// A server of its own, for a test that stops it.
    pub(crate) fn start() -> Option<Self> {
        // Debian has each version in a folder of its own.
        let versions = (12..30).map(|number| format!("/usr/lib/postgresql/{number}/bin/postgres"));
        let versions: Vec<String> = versions.rev().collect();
        let places: Vec<&str> = versions.iter().map(String::as_str).collect();
        let program = program("postgresql", &places)?;
        // PostgreSQL refuses to run as root.
        let user = rustix::process::geteuid()
            .is_root()
            .then(|| (id("-u"), id("-g")));
        let data = folder_of(user).join("data");
        let initdb = program.with_file_name("initdb");
        let mut arguments = vec![
            text(&initdb),
            "--no-sync".into(),
            "--pgdata".into(),
            text(&data),
        ];
        for more in [
            "--auth=trust",
            "--username=admin",
            "--encoding=UTF8",
            "--locale=C",
        ] {
            arguments.push(more.to_owned());
        }
        let arguments = as_user(user, arguments);
        let made = Command::new(&arguments[0])
            .args(&arguments[1..])
            .current_dir("/")
            .output();
        let made = made.unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        std::fs::write(data.join("pg_hba.conf"), ACCESS).unwrap();
        // The server takes a key only from its own user, who alone may read it.
        for name in ["server.pem", "server.key"] {
            let copy = data.join(name);
            std::fs::copy(certificate(name), &copy).unwrap();
            std::fs::set_permissions(&copy, Permissions::from_mode(0o600)).unwrap();
            let (uid, gid) = user.unzip();
            chown(&copy, uid, gid).unwrap();
        }
        let mut postgres = Self {
            server: None,
            program,
            data,
            user,
            port: 0,
        };
        postgres.begin(None);
        Some(postgres)
    }

    /// Starts it, at the port it had before.
    pub(crate) fn begin(&mut self, port: Option<u16>) {
        let (program, data, user) = (self.program.clone(), self.data.clone(), self.user);
        let folder = data.parent().unwrap().to_owned();
        let server = Server::start(&folder, "INT", port, move |port| {
            let port = port.to_string();
            let mut arguments: Vec<String> = vec![text(&program), "-D".into(), text(&data)];
            for setting in [
                "listen_addresses=127.0.0.1",
                "unix_socket_directories=",
                "ssl=on",
                "ssl_cert_file=server.pem",
                "ssl_key_file=server.key",
                "fsync=off",
                "shared_buffers=32MB",
                "max_connections=300",
            ] {
                arguments.extend(["-c".to_owned(), setting.to_owned()]);
            }
            arguments.extend(["-p".to_owned(), port]);
            as_user(user, arguments)
        });
        self.port = server.port;
        self.server = Some(server);
    }

    /// Ends the server in a hurry, as an administrator does; its data stays.
    pub(crate) fn end(&mut self) {
        self.server.take().unwrap().end(self.data.parent().unwrap());
    }

    /// The port it listens on, or did.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A role with the right to make its schema, which has its name.
    pub(crate) async fn role(&self) -> Role {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let url = format!("postgresql://admin@127.0.0.1:{}/postgres", self.port);
        let (admin, connection) = connected(&url).await;
        let role = Role {
            url: url.replace("admin", &name),
            name,
            admin,
            _connection: connection,
        };
        // PostgreSQL refuses two changes of the rights of one database at the same time.
        static ONE_BY_ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _turn = ONE_BY_ONE.lock().await;
        role.run(&format!(
            "CREATE ROLE {0} LOGIN; GRANT CREATE ON DATABASE postgres TO {0}",
            role.name
        ))
        .await;
        role
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn id(what: &str) -> u32 {
    let output = Command::new("id")
        .args([what, "postgres"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn as_user(user: Option<(u32, u32)>, arguments: Vec<String>) -> Vec<String> {
    let Some((uid, gid)) = user else {
        return arguments;
    };
    let mut all = vec![
        "setpriv".to_owned(),
        format!("--reuid={uid}"),
        format!("--regid={gid}"),
    ];
    all.extend(["--clear-groups".to_owned(), "--".to_owned()]);
    all.extend(arguments);
    all
}

/// Connects as soon as the server answers.
async fn connected(url: &str) -> (Client, JoinHandle<()>) {
    let limit = Instant::now() + Duration::from_secs(LIMIT_S);
    loop {
        match tokio_postgres::connect(url, NoTls).await {
            Ok((client, connection)) => {
                return (client, tokio::spawn(async move { drop(connection.await) }));
            }
            Err(error) => assert!(Instant::now() < limit, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A role, and a connection of the administrator.
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) url: String,
    admin: Client,
    _connection: JoinHandle<()>,
}

impl Role {
    /// Runs statements as the administrator.
    pub(crate) async fn run(&self, sql: &str) {
        self.admin
            .batch_execute(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// The rows of a query, every cell as text; `{s}` stands for the schema.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        use tokio_postgres::SimpleQueryMessage::Row;
        let sql = sql.replace("{s}", &self.name);
        let answer = self.admin.simple_query(&sql).await;
        let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let cells = |row: tokio_postgres::SimpleQueryRow| {
            (0..row.len())
                .map(|index| row.get(index).map(str::to_owned))
                .collect()
        };
        answer
            .into_iter()
            .filter_map(|m| {
                if let Row(row) = m {
                    Some(cells(row))
                } else {
                    None
                }
            })
            .collect()
    }

    /// The one number a query gives; -1 while the table is not there.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let sql = sql.replace("{s}", &self.name);
        match self
            .admin
            .query_one(&format!("SELECT ({sql})::bigint"), &[])
            .await
        {
            Ok(row) => row.get(0),
            Err(_) => -1,
        }
    }

    /// As [`Self::rows`], without a runtime: the lines that psql prints.
    pub(crate) fn psql(&self, sql: &str) -> Vec<String> {
        let url = self.url.replacen(&self.name, "admin", 1);
        let sql = sql.replace("{s}", &self.name).replace("{r}", &self.name);
        let output = Command::new("psql")
            .args(["-XAtq", "-d", &url, "-c", &sql])
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }
}
