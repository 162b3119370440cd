//! Which statuses mean that a repair is ready for pickup. Pure.

/// Words by which the name of a status says that a repair is ready for pickup.
const READY_WORDS: [&str; 3] = ["pickup", "collect", "collection"];

/// Whether a status means ready for pickup: the configuration names those that do, or else their
/// names decide.
pub(super) fn is_ready(status: &str, named: &[String]) -> bool {
    let status = status.trim().to_lowercase();
    if !named.is_empty() {
        return named
            .iter()
            .any(|named| named.trim().to_lowercase() == status);
    }
    let words: Vec<&str> = status.split(|c: char| !c.is_alphanumeric()).collect();
    let has = |word: &str| words.contains(&word);
    status == "ready"
        || READY_WORDS.into_iter().any(has)
        || words.windows(2).any(|pair| pair == ["pick", "up"])
        || (has("ready") && has("delivery"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_statuses_say_what_is_ready_unless_the_configuration_does() {
        let guess = |status: &str| is_ready(status, &[]);
        let told = |status: &str| is_ready(status, &["Abholbereit".to_owned()]);
        assert!(guess("Ready for Pickup") && guess("to collect") && !guess("In repair"));
        for status in [
            "Ready",
            "Awaiting pick-up",
            "Pick up",
            "Ready for delivery",
            "For collection",
        ] {
            assert!(guess(status), "{status}");
        }
        for status in [
            "Already informed",
            "Ready for repair",
            "Collected",
            "Out for delivery",
        ] {
            assert!(!guess(status), "{status}");
        }
        assert!(told(" abholbereit ") && !told("Ready for pickup"));
    }
}
