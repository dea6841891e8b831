"""What autoscalers ask of policies by SlackScales in our namespace, carried over, and the policies' figures back."""
