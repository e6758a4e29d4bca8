//! Runs one exploration to its end.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
    num::NonZeroUsize,
    sync::Arc,
    thread,
};

use holdfast_core::mutants;
use stateright::{Checker, HasDiscoveries, Model};

use crate::{
    bounds::Bounds,
    mutant::Mutant,
    properties::Property,
    protocol::{Action, Protocol},
    replica::Mode,
    witness::Met,
    world::World,
};

/// What an exploration found.
#[derive(Debug)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Steps between states, into known ones too.
    pub steps: usize,
    /// The longest way that was taken to a new state.
    pub depth: usize,
    /// Whether nothing was left to try.
    pub exhausted: bool,
    /// What is broken.
    pub broken: Vec<Property>,
    /// What was met on the way.
    pub met: Arc<Met>,
    /// Without a fault, the shortest way to the first of these.
    pub trace: Option<Trace>,
}

/// A way to a state: what happened, and what came of it.
#[derive(Debug)]
pub struct Trace(Vec<(World, Option<Action>)>);

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (world, action)) in self.0.iter().enumerate() {
            let db = &world.db;
            writeln!(
                f,
                "{at:>3}  version {} of set {}, {:?}, answer lost {}, lease {:?}, row {:?}",
                db.version, db.token, db.health, db.answer_lost, db.lease, db.row
            )?;
            writeln!(f, "     provider {}", world.provider)?;
            for (r, replica) in world.replicas.iter().enumerate().filter(|(_, replica)| replica.mode != Mode::Absent) {
                write!(f, "     {r} {:?}", replica.mode)?;
                if let Some(flight) = replica.flight {
                    write!(f, ", {:?}, {:?}", flight.want, flight.at)?;
                }
                if let Some(statement) = replica.beside {
                    write!(f, ", beside {statement:?}")?;
                }
                if let Some(rotation) = replica.lifeboat {
                    write!(f, ", lifeboat {rotation:?}")?;
                }
                writeln!(f)?;
            }
            if let Some(action) = action {
                writeln!(f, "  -> {action:?}")?;
            }
        }
        Ok(())
    }
}

/// Explores the protocol within its bounds, whole or with a fault.
pub fn explore(bounds: &Bounds, mutant: Option<Mutant>) -> Explored {
    mutants::arm(mutant.and_then(Mutant::in_core));
    let protocol = Protocol { bounds: *bounds, mutant, met: Arc::default() };
    // On a thread of its own: what is remembered of decisions belongs to this one exploration.
    let explored = thread::spawn(move || run(protocol)).join().expect("the exploration does not panic");
    mutants::arm(None);
    explored
}

/// The shortest way to a broken property.
fn shortest(protocol: &Protocol, property: Property) -> Option<Trace> {
    let mut known: HashMap<World, Option<(World, Action)>> =
        protocol.init_states().into_iter().map(|world| (world, None)).collect();
    let mut next: VecDeque<World> = known.keys().copied().collect();
    while let Some(world) = next.pop_front() {
        if world.broken.has(property) {
            let mut way = vec![(world, None)];
            let mut at = world;
            while let Some((before, action)) = known[&at] {
                way.push((before, Some(action)));
                at = before;
            }
            way.reverse();
            return Some(Trace(way));
        }
        let mut actions = Vec::new();
        protocol.actions(&world, &mut actions);
        for action in actions {
            if let Some(after) = protocol.next_state(&world, action)
                && let Entry::Vacant(free) = known.entry(after)
            {
                free.insert(Some((world, action)));
                next.push_back(after);
            }
        }
    }
    None
}

fn run(protocol: Protocol) -> Explored {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let (met, mutant) = (Arc::clone(&protocol.met), protocol.mutant);
    let checker = protocol.checker().finish_when(HasDiscoveries::All).threads(threads).spawn_bfs().join();
    let found = checker.discoveries();
    let broken: Vec<_> = Property::ALL.into_iter().filter(|property| found.contains_key(property.name())).collect();
    let trace = broken.first().filter(|_| mutant.is_none()).and_then(|first| shortest(checker.model(), *first));
    Explored {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        exhausted: checker.is_done() && broken.len() < Property::ALL.len(),
        broken,
        met,
        trace,
    }
}
