"""What should the learner change?"""
