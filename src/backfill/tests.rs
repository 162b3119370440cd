use proptest::prelude::*;

use super::text::TermPlace;
use super::*;
use crate::record::field;
use sandbox::{Options, Route, Sandbox, Shop};

struct Made {
    id: String,
    name: String,
    email: String,
    mobile: String,
}

fn shown(made: &Made) -> Customer<'_> {
    Customer { id: &made.id, name: &made.name, email: &made.email, mobile: &made.mobile }
}

/// A workspace whose search shows a term's newest matches; the last made is the newest.
struct Workspace {
    made: Vec<Made>,
    texts: Vec<Texts>,
    way: Matching,
}

impl Workspace {
    fn new(made: Vec<Made>, place: TermPlace) -> Self {
        let texts = made.iter().map(|m| Texts::new([&m.name, &m.email, &m.mobile])).collect();
        Self { made, texts, way: Matching { place, case_matters: false } }
    }

    /// National numbers at random; names from a pool of some thousand pairs; most have an e-mail.
    fn random(seed: u64, count: usize, place: TermPlace) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut words = |count: usize, least: usize| -> Vec<String> {
            let syllable = [
                "ba", "che", "di", "fo", "gu", "ha", "ki", "lo", "ma", "ne", "pra", "ro", "shi",
                "tho", "vy", "zan",
            ];
            (0..count)
                .map(|_| {
                    let parts = least + rng.usize(..2);
                    let word: String = (0..parts).map(|_| syllable[rng.usize(..16)]).collect();
                    word[..1].to_uppercase() + &word[1..]
                })
                .collect()
        };
        let (given, family) = (words(40, 1), words(60, 2));
        let mail = ["gmail.com", "outlook.com", "example.org", "mail.example", "example.net"];
        let made = (0..count)
            .map(|nth| {
                let (given, family) = (&given[rng.usize(..40)], &family[rng.usize(..60)]);
                let address = format!("{given}.{family}{}@{}", rng.u8(..100), mail[rng.usize(..5)]);
                Made {
                    id: nth.to_string(),
                    name: format!("{given} {family}"),
                    email: if rng.u8(..5) == 0 { String::new() } else { address.to_lowercase() },
                    mobile: format!("{:010}", rng.u64(..10_000_000_000)),
                }
            })
            .collect();
        Self::new(made, place)
    }

    /// What the sandbox invents.
    fn sandbox(count: usize) -> Self {
        let sandbox = Sandbox::new(Options { shop: Shop::Quiet, ..Options::default() });
        sandbox.pause_growth(true);
        sandbox.burst(Route::Customers, count);
        let truth = sandbox.truth(Route::Customers);
        let text = |record: &str, name| -> String {
            field(record, name).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
        };
        let made = truth[truth.len() - count..]
            .iter()
            .map(|truth| Made {
                id: truth.id.to_string(),
                name: text(truth.record.get(), "name"),
                email: text(truth.record.get(), "email"),
                mobile: text(truth.record.get(), "mobile_number"),
            })
            .collect();
        Self::new(made, TermPlace::Anywhere)
    }

    fn search(&self, term: &str) -> Vec<Customer<'_>> {
        let term = Term::new(term);
        let matches = |texts: &Texts| self.way.finds(texts, &term);
        let newest = self.made.iter().zip(&self.texts).rev();
        newest.filter(|(_, t)| matches(t)).take(MOST_SHOWN).map(|(m, _)| shown(m)).collect()
    }

    /// Knows the newest hundred, as a first page shows them.
    fn begin(&self) -> Planner {
        let mut planner = Planner::default();
        for made in self.made.iter().rev().take(100) {
            planner.know(shown(made));
        }
        planner
    }

    /// Searches up to `most` times; returns the terms.
    fn walk(&self, planner: &mut Planner, most: usize) -> Vec<String> {
        let mut asked = Vec::new();
        while asked.len() < most
            && let Some(term) = planner.next_term()
        {
            planner.answered(&term, &self.search(&term));
            asked.push(term);
        }
        asked
    }
}

/// Known share in per cent, and the searches made until it was 99 or `most` were made.
fn course(workspace: &Workspace, most: usize) -> (f64, usize) {
    let mut planner = workspace.begin();
    let (mut asked, mut found) = (0, 0.0);
    while asked < most && found < 99.0 {
        let made = workspace.walk(&mut planner, 10.min(most - asked)).len();
        asked += made;
        found = 100.0 * planner.status().known as f64 / workspace.made.len() as f64;
        if made == 0 {
            break;
        }
    }
    (found, asked)
}

#[test]
fn five_thousand_customers_with_numbers_at_random_take_eight_hundred_searches() {
    let (found, asked) = course(&Workspace::random(1, 5_000, TermPlace::Anywhere), 800);
    assert!(found >= 99.0, "{found} % with {asked}");
}

#[test]
fn five_thousand_customers_of_the_sandbox_take_eight_hundred_searches() {
    let (found, asked) = course(&Workspace::sandbox(5_000), 800);
    assert!(found >= 99.0, "{found} % with {asked}");
}

#[test]
fn a_workspace_that_matches_beginnings_only_is_noticed() {
    for (place, least) in [(TermPlace::WordStart, 85.0), (TermPlace::FieldStart, 70.0)] {
        let workspace = Workspace::random(2, 1_000, place);
        let mut planner = workspace.begin();
        workspace.walk(&mut planner, 400);
        assert_eq!(planner.way.place, place);
        let found = 100.0 * planner.status().known as f64 / 1_000.0;
        assert!(found >= least, "{place:?}: {found} %");
    }
}

#[test]
fn a_walk_goes_on_where_it_was() {
    let workspace = Workspace::random(3, 600, TermPlace::Anywhere);
    let mut first = workspace.begin();
    let asked = workspace.walk(&mut first, 40);
    let known = first.status().known;
    assert!(known > 250, "{known}");

    let mut again = Planner::default();
    for made in workspace.made.iter().rev().filter(|made| first.ids.contains(&made.id)) {
        again.know(shown(made));
    }
    for term in &asked {
        again.searched_before(term, workspace.search(term).len());
    }
    assert_eq!(again.status().known, known);
    assert_eq!(again.status().searches, 40);
    let more = workspace.walk(&mut again, 400);
    assert!(more.iter().all(|term| !asked.contains(term)));
    assert!(again.status().known >= 590, "{:?} after {}", again.status(), more.len());
}

#[test]
fn whoever_another_route_names_is_searched_for() {
    let workspace = Workspace::random(4, 300, TermPlace::Anywhere);
    let mut planner = workspace.begin();
    let old = &workspace.made[0];
    planner.suspect(Customer { id: "", ..shown(old) });
    workspace.walk(&mut planner, 60);
    assert!(planner.ids.contains(&old.id));
}

#[test]
fn nothing_known_is_nothing_to_ask() {
    assert_eq!(Planner::default().next_term(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn whatever_is_answered_no_term_is_asked_twice_or_too_long(
        texts in prop::collection::vec(("\\PC{0,12}", "[a-z@. ]{0,10}", "[0-9 +-]{0,14}"), 1..40),
        answers in prop::collection::vec(prop::collection::vec(0_usize..40, 0..30), 30),
    ) {
        let made: Vec<Made> = texts
            .into_iter()
            .enumerate()
            .map(|(nth, (name, email, mobile))| Made { id: nth.to_string(), name, email, mobile })
            .collect();
        let mut planner = Planner::default();
        planner.know(shown(&made[0]));
        let mut asked = HashSet::new();
        for answer in answers {
            let Some(term) = planner.next_term() else { break };
            prop_assert!((1..=100).contains(&term.chars().count()), "{term:?}");
            prop_assert_eq!(term.trim(), term.as_str());
            prop_assert!(asked.insert(term.clone()), "{term:?} again");
            let found: Vec<_> = answer.iter().filter_map(|nth| made.get(*nth)).map(shown).collect();
            planner.answered(&term, &found);
            let status = planner.status();
            prop_assert!(status.known <= made.len() && status.total >= status.known);
        }
    }
}
