mod plans;
mod rebuilt;
mod salvaged;
mod states;
