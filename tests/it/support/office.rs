//! LibreOffice without a window: what a spreadsheet makes of a file.

use std::path::Path;

use tokio::process::Command;

use super::Place;
use super::servers::program;

/// Its setting by which it calculates every formula of an Excel file again.
const CALCULATES: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load">
<prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>0</value></prop>
</item></oor:items>"#;

/// A spreadsheet program with settings of its own.
pub(crate) struct Office<'p> {
    place: &'p Place,
    program: std::path::PathBuf,
    settings: &'static str,
}

impl<'p> Office<'p> {
    /// It shows the values that a file has; `None` if it is left out.
    pub(crate) fn new(place: &'p Place) -> Option<Self> {
        Some(Self {
            place,
            program: program("libreoffice-calc-nogui", &["/usr/bin/soffice"])?,
            settings: "office",
        })
    }

    /// It calculates every formula again.
    pub(crate) fn that_calculates(place: &'p Place) -> Option<Self> {
        let office = Self {
            settings: "office-that-calculates",
            ..Self::new(place)?
        };
        let user = place.path(office.settings).join("user");
        std::fs::create_dir_all(&user).unwrap();
        std::fs::write(user.join("registrymodifications.xcu"), CALCULATES).unwrap();
        Some(office)
    }

    /// Opens a file of the folder, with these options of the program, and writes it as another kind
    /// into the folder `to`.
    pub(crate) async fn convert(&self, file: &str, options: &[&str], kind: &str, to: &str) {
        let settings = self.place.path(self.settings);
        let mut convert = Command::new(&self.program);
        convert
            .arg(format!(
                "-env:UserInstallation=file://{}",
                settings.display()
            ))
            .arg("--headless")
            .args(options)
            .args(["--convert-to", kind])
            .arg("--outdir")
            .arg(self.place.path(to))
            .arg(self.place.path(file))
            .kill_on_drop(true);
        let ended = convert.output().await.unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }

    /// The rows of both sheets of an Excel file, as CSV with numbers as they are.
    pub(crate) async fn sheets(&self, file: &str) -> (String, String) {
        let kind = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,true,true,false,false,false,-1";
        let to = format!("{}-sheets", self.settings);
        self.convert(file, &[], kind, &to).await;
        let mut rows = String::new();
        let mut notes = String::new();
        for entry in std::fs::read_dir(self.place.path(&to)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            if is_notes(&path) {
                notes = text;
            } else {
                rows = text;
            }
        }
        (rows, notes)
    }
}

fn is_notes(path: &Path) -> bool {
    path.to_string_lossy().ends_with("-Notes.csv")
}
