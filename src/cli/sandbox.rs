//! `sandbox`: the imitation of the workspace API, without a daemon.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::exit::{self, refuse};
use super::signals::stoppable;
use super::{logging, output, runtime};
use ::sandbox::{self, DateFormats, Options, Sandbox, Shop};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address and port; port 0 picks a free port
    #[arg(long, default_value = "127.0.0.1:8780")]
    listen: SocketAddr,
    /// The same seed gives the same history
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The size of the shop: quiet, busy or chain
    #[arg(long, default_value_t = Shop::default())]
    shop: Shop,
    /// The speed of its clock; 2 is twice as fast as real time
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Requests per minute that one key may make
    #[arg(long, default_value_t = 60)]
    requests_per_minute: u32,
    /// How the shop writes a date that it enters, as in received_at=%d/%m/%Y; may be repeated
    #[arg(long, value_name = "FIELD=FORMAT")]
    date_format: Vec<String>,
    /// A file that keeps what clients and the portal write
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    logging::start("warn");
    runtime()?.block_on(async {
        let listener = TcpListener::bind(args.listen).await.with_context(|| {
            format!("cannot listen on {}: choose another --listen", args.listen)
        })?;
        let address = listener.local_addr()?;
        let mut date_formats = DateFormats::default();
        for format in &args.date_format {
            if let Err(why) = date_formats.set(format) {
                return refuse(exit::USAGE, &why);
            }
        }
        let sandbox = Sandbox::open(&Options {
            date_formats,
            seed: args.seed,
            shop: args.shop,
            speed: args.speed,
            requests_per_minute: args.requests_per_minute,
            state_file: args.state.clone(),
            ..Options::default()
        })?;
        output::text(&format!(
            "sandbox: all data here is invented\n\
             base_url         http://{address}/api\n\
             automation key   {}\n\
             rest api key     {}\n\
             control          http://{address}/_sandbox/\n",
            sandbox.automation_key(),
            sandbox.rest_key(),
        ))?;
        let stop = CancellationToken::new();
        stoppable(&stop, sandbox::serve(listener, sandbox, stop.clone())).await??;
        Ok(ExitCode::SUCCESS)
    })
}

/// Parses the speed of a clock: above 0, at most 100,000.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed > 0.0 && speed <= 100_000.0 => Ok(speed),
        _ => Err("the speed must be a number above 0, at most 100000".to_owned()),
    }
}
