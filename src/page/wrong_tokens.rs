//! How often an address may send a wrong token. Pure.
//!
//! From the sixth wrong one in a minute on, no token of that address is compared for half a minute.
//! So who guesses has about two tries a minute, and who mistyped one waits for that long.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tokio::time::Instant;

/// The wrong tokens of an address in a [`MINUTE`] that are refused without a wait.
const FREE: usize = 5;
const MINUTE: Duration = Duration::from_secs(60);
/// How long an address waits after each one more.
const WAIT: Duration = Duration::from_secs(30);
/// The most addresses that are remembered. The one that was wrong longest ago is forgotten first.
const ADDRESSES_MAX: usize = 1_000;

/// The addresses that sent wrong tokens in the last minute.
#[derive(Debug, Default)]
pub(super) struct WrongTokens {
    /// When each address sent its last wrong ones, the oldest first.
    sent_at: HashMap<IpAddr, Vec<Instant>>,
}

impl WrongTokens {
    /// How long an address has to wait until its token is compared; `None` if it need not.
    pub(super) fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let sent_at = self.sent_at.get(&network(address))?;
        if sent_at.len() <= FREE {
            return None;
        }
        let begun = *sent_at.last()?;
        let left = WAIT.saturating_sub(now.saturating_duration_since(begun));
        if left.is_zero() {
            return None;
        }
        Some(left)
    }

    /// Notes a wrong token.
    pub(super) fn note(&mut self, address: IpAddr, now: Instant) {
        for sent_at in self.sent_at.values_mut() {
            sent_at.retain(|at| now.saturating_duration_since(*at) < MINUTE);
        }
        self.sent_at.retain(|_, sent_at| !sent_at.is_empty());
        let network = network(address);
        if self.sent_at.len() >= ADDRESSES_MAX && !self.sent_at.contains_key(&network) {
            let oldest = self
                .sent_at
                .iter()
                .min_by_key(|(_, sent_at)| sent_at.last());
            if let Some(oldest) = oldest.map(|(network, _)| *network) {
                self.sent_at.remove(&oldest);
            }
        }
        self.sent_at.entry(network).or_default().push(now);
    }
}

/// What counts as one address: a client may choose any address of its IPv6 network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn the_sixth_wrong_token_of_an_address_in_a_minute_has_it_wait() {
        let now = Instant::now();
        let mut wrong = WrongTokens::default();
        for second in 0..5 {
            wrong.note(SHOP, now + seconds(second));
            assert_eq!(wrong.wait(SHOP, now + seconds(second)), None);
        }
        let sixth = now + seconds(59);
        wrong.note(SHOP, sixth);
        assert_eq!(wrong.wait(SHOP, sixth), Some(seconds(30)));
        assert_eq!(wrong.wait(SHOP, sixth + seconds(29)), Some(seconds(1)));
        assert_eq!(wrong.wait(SHOP, sixth + seconds(30)), None);
        assert_eq!(wrong.wait("10.0.0.8".parse().unwrap(), sixth), None);
    }

    #[test]
    fn one_wrong_token_now_and_then_waits_for_nothing() {
        let now = Instant::now();
        let mut wrong = WrongTokens::default();
        for minute in 0..100 {
            let at = now + seconds(13 * minute);
            wrong.note(SHOP, at);
            assert_eq!(wrong.wait(SHOP, at), None, "{minute}");
        }
    }

    #[test]
    fn the_addresses_of_one_network_are_one_and_their_number_is_bounded() {
        let now = Instant::now();
        let mut wrong = WrongTokens::default();
        for host in 0..6 {
            wrong.note(format!("2001:db8::{host}").parse().unwrap(), now);
        }
        assert!(wrong.wait("2001:db8::99".parse().unwrap(), now).is_some());
        assert_eq!(wrong.wait("2001:db8:0:1::1".parse().unwrap(), now), None);
        for host in 0..2_000_u32 {
            let address = IpAddr::V4(std::net::Ipv4Addr::from_bits(host));
            wrong.note(address, now + seconds(1));
        }
        assert_eq!(wrong.sent_at.len(), ADDRESSES_MAX);
        assert_eq!(wrong.wait("2001:db8::99".parse().unwrap(), now), None);
    }
}
