"""What pools of containers that follow their queues are worth, beside what was there before."""
