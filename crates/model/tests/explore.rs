//! Explores the refresh protocol: whole, which has to break nothing, and with one fault each, which has to break
//! something. Prints the bounds, the states and the table of faults and properties.
//!
//! Arguments that begin with no dash choose explorations and faults by a part of their name.

use std::process::ExitCode;

use holdfast_model::{Bounds, Explored, Met, Mutant, Property, Witness, explore, scenarios};

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let mut faults = Vec::new();

    println!(
        "\nThe protocol, in {} explorations. Time, retries and flights are not bounded.\n",
        scenarios::all().len()
    );
    let met = Met::default();
    let mut sum = 0;
    for bounds in scenarios::all().into_iter().filter(|bounds| chosen(bounds.name)) {
        let explored = explore(&bounds, None);
        sum += explored.states;
        met.join(&explored.met);
        println!("{:<44}{}\n    {bounds}", bounds.name, size(&explored));
        if let Some(trace) = &explored.trace {
            println!("    BROKEN: {:?}, this way:\n{trace}", explored.broken);
        }
        if !explored.broken.is_empty() || !explored.exhausted {
            faults.push(format!("{} breaks {:?}", bounds.name, explored.broken));
        }
    }
    println!("\n{sum} states in all.");
    for witness in Witness::ALL.into_iter().filter(|witness| wanted.is_empty() && !met.has(*witness)) {
        faults.push(format!("never met: {}", witness.name()));
    }

    let mut found = Vec::new();
    println!("\n{:<42}{:>9}  {}", "fault", "states", Property::ALL.map(|p| format!("{:<9}", p.name())).concat());
    for mutant in Mutant::ALL.into_iter().filter(|mutant| chosen(mutant.name())) {
        let explored = explore(&scenarios::of(mutant), Some(mutant));
        let breaks = |property| if explored.broken.contains(&property) { "breaks" } else { "." };
        let row = Property::ALL.map(|property| format!("{:<9}", breaks(property))).concat();
        println!("{:<42}{:>9}  {row}", mutant.name(), explored.states);
        found.extend(&explored.broken);
        if explored.broken.is_empty() {
            faults.push(format!("no property finds: {}", mutant.name()));
        }
        // What the fault is looked for in has to be sound without it.
        let bounds = Bounds { name: mutant.name(), ..scenarios::of(mutant) };
        if !explore(&bounds, None).broken.is_empty() {
            faults.push(format!("broken without a fault: {bounds}"));
        }
    }
    for property in Property::ALL.into_iter().filter(|property| wanted.is_empty() && !found.contains(property)) {
        faults.push(format!("no fault breaks {}", property.name()));
    }
    for fault in &faults {
        println!("\nFAILED: {fault}");
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn size(explored: &Explored) -> String {
    let end = if explored.exhausted { "exhausted" } else { "NOT exhausted" };
    format!("{:>9} states, {:>9} steps, depth {:>3}, {end}", explored.states, explored.steps, explored.depth)
}
