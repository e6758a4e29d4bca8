//! Figures with their goals, for people and for programs.

use serde_json::{Value, json};

/// What a figure should be.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    Under(f64),
    Exactly(f64),
    /// Said to explain the others.
    None,
}

struct Row {
    what: String,
    value: f64,
    unit: &'static str,
    goal: Goal,
    note: String,
}

/// All of one run.
pub(super) struct Report {
    machine: Value,
    rows: Vec<Row>,
}

impl Goal {
    fn met(self, value: f64) -> Option<bool> {
        match self {
            Self::AtLeast(goal) => Some(value >= goal),
            Self::AtMost(goal) => Some(value <= goal),
            Self::Under(goal) => Some(value < goal),
            Self::Exactly(goal) => Some((value - goal).abs() < f64::EPSILON),
            Self::None => None,
        }
    }

    fn text(self, unit: &str) -> String {
        match self {
            Self::AtLeast(goal) => format!("at least {goal} {unit}"),
            Self::AtMost(goal) => format!("at most {goal} {unit}").trim().to_owned(),
            Self::Under(goal) => format!("under {goal} {unit}"),
            Self::Exactly(goal) => format!("{goal}"),
            Self::None => String::new(),
        }
    }
}

impl Report {
    pub(super) fn new(machine: Value) -> Self {
        Self { machine, rows: Vec::new() }
    }

    /// Adds a figure, and shows it at once on stderr: the run takes minutes.
    pub(super) fn add(&mut self, what: impl Into<String>, value: f64, unit: &'static str, goal: Goal, note: String) {
        let row = Row { what: what.into(), value, unit, goal, note };
        let [what, figure, goal, met, note] = row.cells();
        eprintln!("{what}: {figure}  {goal}  {met}  {note}");
        self.rows.push(row);
    }

    pub(super) fn ended(&mut self, load_average: Option<f64>) {
        self.machine["load_average_after"] = json!(load_average);
    }

    pub(super) fn table(&self) -> String {
        let head = ["what", "figure", "goal", "met?", ""].map(str::to_owned);
        let lines: Vec<[String; 5]> = std::iter::once(head).chain(self.rows.iter().map(Row::cells)).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..4).map(width).collect();
        let render = |line: &[String; 5]| {
            let cells = line.iter().zip(widths.iter().chain([&0])).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let facts = self.machine.as_object().into_iter().flatten();
        let facts: Vec<String> =
            facts.map(|(name, value)| format!("{}: {}", name.replace('_', " "), plain(value))).collect();
        let rows: Vec<String> = lines.iter().map(render).collect();
        format!("\n{}\n\n{}\n\n{}", facts.join("; "), rows.join("\n"), self.verdict())
    }

    pub(super) fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            json!({
                "what": row.what, "value": row.value, "unit": row.unit, "note": row.note,
                "goal": row.goal.text(row.unit), "met": row.goal.met(row.value),
            })
        });
        let all = json!({ "machine": self.machine, "figures": rows.collect::<Vec<_>>() });
        serde_json::to_string_pretty(&all).expect("it is plain data")
    }

    fn verdict(&self) -> String {
        let missed = |row: &&Row| row.goal.met(row.value) == Some(false);
        let missed: Vec<&str> = self.rows.iter().filter(missed).map(|row| row.what.as_str()).collect();
        match missed.as_slice() {
            [] => "Every goal is met.".to_owned(),
            missed => format!("Missed: {}.", missed.join("; ")),
        }
    }
}

impl Row {
    fn cells(&self) -> [String; 5] {
        let met = match self.goal.met(self.value) {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        let digits = usize::from(self.value.fract() != 0.0);
        let figure = format!("{:.digits$} {}", self.value, self.unit);
        [self.what.clone(), figure.trim().to_owned(), self.goal.text(self.unit), met.to_owned(), self.note.clone()]
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Goal, Report};

    #[test]
    fn a_missed_goal_is_said() {
        let mut report = Report::new(json!({ "cores": 2 }));
        report.add("memory", 39.9, "MiB", Goal::Under(40.0), String::new());
        report.add("statements", 1.0, "", Goal::Exactly(0.0), String::new());
        report.add("share", 60.0, "%", Goal::AtLeast(60.0), String::new());
        report.add("cost", 12.5, "us", Goal::None, String::new());

        assert!(report.table().ends_with("Missed: statements."));
        let json: Value = serde_json::from_str(&report.json()).unwrap();
        let met: Vec<&Value> = json["figures"].as_array().unwrap().iter().map(|figure| &figure["met"]).collect();
        assert_eq!(met, [&json!(true), &json!(false), &json!(true), &Value::Null]);
    }
}
