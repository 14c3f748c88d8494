"""What makes the notebooks a course: a reader predicts, is answered, and has an exercise checked.

Stands above the views and below the command line, because a check may run any kernel, and look at its run as the
reader does. Modules are imported when they are used: a prediction needs no machine.
"""
