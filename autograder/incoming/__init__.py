"""What comes in from a class: folders, archives of learning management systems, and the list of learners."""
